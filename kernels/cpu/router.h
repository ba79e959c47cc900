#pragma once
// The router of a mixture of experts: which experts a token goes to, and with what weights. A token's results depend on its own
// row alone, and are the same bits on every instruction set. kernels/ref/experts_ref.h is the twin.
//
// Letters: T tokens, E experts, K chosen for each token. X: float or bf16, the type of dlogits; all other numbers are floats.
//
// Order, of every function: one thread computes a row's numbers, in the order of the formula, whatever else is in the batch.

#include <cstdint>
#include <span>

namespace tern {

enum class Score : uint8_t { softmax, sigmoid };
struct Router {
  int64_t experts, top_k;
  bool normalized = true;  // the chosen scores are divided by their sum
  Score score = Score::softmax;
  double scaling = 1;  // a factor of the weights
  // Experts are chosen from the `top_groups` best of `groups` groups of equal size. A group's score is, with the bias added: for softmax its
  // greatest score, for sigmoid the sum of its two greatest.
  int64_t groups = 1, top_groups = 1;
};

/// Logits become scores; the K experts of the greatest scores are chosen.
/// Shapes  scores (T, E): logits, overwritten by the scores; chosen (T, K): ids of experts, ascending in each row; weights (T, K): of the
///         chosen experts; bias (E): added to the scores for the choice alone; may be empty.
/// Ties    among equal scores, those win that partial_sort (if K·64 <= E) or nth_element (else) of GNU's C++ library puts in front, as in
///         PyTorch's top-k on a CPU. NaN counts as greatest.
/// Errors  TERN_CHECK: K not in 1 … E; groups not dividing E; top_groups with fewer than K experts; span sizes.
/// Source  Shazeer et al. 2017, arXiv:1701.06538 (recalled). Softmax before the choice: Mixtral, arXiv:2401.04088.
///         Groups: DeepSeek-V2, arXiv:2405.04434. Sigmoids and a bias: DeepSeek-V3, arXiv:2412.19437 (numbers
///         recalled).
void choose_experts(const Router&, std::span<const float> bias, std::span<float> scores, std::span<int32_t> chosen,
                    std::span<float> weights);
/// dlogits dz (T, E), rounded to X, from dw = dweights (T, K). The choice itself has no gradient: dp = 0 for experts that are not chosen.
///   With s = scaling, p the scores, Σ over the chosen:  w = s·u,  u_k = p_k/Σp (or p_k, if not normalized):
///   dp_k = (s·dw_k - Σ_j dw_j·w_j)/Σp (or s·dw_k);  softmax: dz = p·(dp - Σ dp·p),  sigmoid: dz = dp·p·(1 - p)
template <class X>
void choose_experts_backward(const Router&, std::span<const float> scores, std::span<const int32_t> chosen,
                             std::span<const float> weights, std::span<const float> dweights, std::span<X> dlogits);

}  // namespace tern
