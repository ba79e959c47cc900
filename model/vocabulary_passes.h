#pragma once
// The head as passes on parts of the vocabulary, without communication: vocabulary parallelism (program/spread_head.h), where each
// device of a pipeline has some rows of the projection. T rows, D width, V rows of the vocabulary in a part; n the normed rows (times
// the head's multiplier), W_r the rows of part r, k the target of a row, w its loss weight `scale`.
//   S  on each part   z = n·W_rᵀ,  e = exp(z - m_r) ,  s_r = Σ e,  A_r = e·W_r,  G_r = W_r[k] if the part has k, else 0
//   combine, once     M = max m_r,  Z = Σ s_r·exp(m_r - M),  f_r = w·exp(m_r - M)/Z
//                     L = log Z + M - z_k,  dn = Σ_r (f_r·A_r - w·G_r)
//   T  on each part   dW_r += (f_r·e - w·onehot(k))ᵀ·n
// Under a cap z' = c·tanh(z/c) stands for z, and e, G_r and onehot(k) are multiplied by the slope 1 - (z'/c)² of their element.
// A row without a loss has z and e for nothing: its e, A, G, f and dn are 0. m_r may be any number with exp(z) = e·exp(m_r).
// Source: Yeung et al. 2024, arXiv:2411.05288, Algorithm 2 (recalled); loss weight, masks and cap are ours.

#include <span>
#include <vector>

#include "model/unit.h"
#include "spec/layout.h"

namespace tern {

/// Rows of the vocabulary that one device has. There may be none.
struct VocabularyPart {
  Interval tokens;
  Linear rows;  // (V, D), dense
};
/// A view of these rows of a projection, or of its gradient. Errors: TERN_CHECK: the projection is not dense, or has a bias or adapters.
VocabularyPart vocabulary_part(const Linear& projection, Interval tokens);

/// What S leaves for the one that combines. It travels: 2·T·D numbers of the model's type and three of f64 a row.
struct HeadPartial {
  Tensor numbers_T3;  // f64: m_r, s_r, and the target's logit, or 0
  Tensor a_TD, g_TD;
};
/// What S keeps for T.
struct HeadPartSaved {
  Tensor softmax_TV;  // e, times slopes under a cap
  Tensor
      slopes_T;  // of the target's element: 1 without a cap; 0 if the part lacks the target. f32, or f64 of an f64 model
};

/// Pass S. normed (T, D); targets (T), < 0: no loss. Temporaries are those of a tile of logits (kHeadTile).
HeadPartial head_part_forward(const HeadSpec&, const VocabularyPart& weights, const Tensor& normed_TD,
                              std::span<const int32_t> targets, HeadPartSaved& saved, const Compute&);

struct CombinedHead {
  double loss = 0;                // Σ over targets of -log p
  Tensor dnormed_TD;              // the gradient of scale·loss with respect to norm(x), the multiplier in it
  std::vector<Tensor> factors_T;  // of each part: f_r, in f64
};
/// Combines all parts' S, in their order, which fixes the bits.
CombinedHead combine_head_parts(const HeadSpec&, std::span<const HeadPartial> parts, std::span<const int32_t> targets,
                                double scale, const Compute&);

/// Pass T: adds the weight gradient of a part. factors: this part's of CombinedHead. gradient: the same rows of the
/// projection's gradient.
void head_part_backward_weight(const VocabularyPart& weights, const Tensor& normed_TD, std::span<const int32_t> targets,
                               double scale, const Tensor& factors_T, const HeadPartSaved& saved,
                               const VocabularyPart& gradient, const Compute&);

}  // namespace tern
