#pragma once
// The softmax of a row of logits of which several ranks have a part each: what a rank says about its part, and the whole from
// all of these. Shared by the head of a tensor group (shared_head.cpp) and the passes of a pipeline (vocabulary_passes.cpp).

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "kernels/cpu/cross_entropy.h"
#include "spec/layout.h"
#include "spec/unit_cost.h"

namespace tern {

/// Of a row on one rank, whose logits z become numbers e with exp(z) = e·exp(most).
struct RowPart {
  double most = -std::numeric_limits<double>::infinity();
  double sum = 0;     // of e
  double target = 0;  // its logit, where this rank has it
};
static_assert(sizeof(RowPart) == kNumbersOfARow * sizeof(double));

/// Where a target stands in the rows of the vocabulary that a rank has; −1: not among them.
inline int64_t place_in_part(const Interval& tokens, int32_t target) {
  return tokens.begin <= target && target < tokens.end ? target - tokens.begin : -1;
}

/// e = exp(z - max z). target: its place in z, or less than 0.
inline RowPart part_of_row(std::span<double> z, int64_t target) {
  RowPart part;
  if (target >= 0) part.target = z[static_cast<size_t>(target)];
  part.most = *std::ranges::max_element(z);
  for (double& x : z) part.sum += x = std::exp(x - part.most);
  return part;
}
/// e = softmax z, by the kernel of a whole vocabulary: its loss is log Σ exp(z) - z_k, its gradient softmax z but at k.
inline RowPart part_of_row(std::span<float> z, int64_t target) {
  const auto k = static_cast<int32_t>(std::max<int64_t>(target, 0));
  float& at = z[static_cast<size_t>(k)];
  const double z_k = at;
  float loss = 0;
  cross_entropy_forward_backward(static_cast<int64_t>(z.size()), {&k, 1}, {}, 1, z, {&loss, 1});
  const RowPart part{.most = loss + z_k, .sum = 1, .target = target < 0 ? 0 : z_k};
  at = static_cast<float>(std::exp(z_k - part.most));
  return part;
}

/// The row of the whole vocabulary, in the order of `parts`.
inline RowPart joined(std::span<const RowPart> parts) {
  RowPart all;
  for (const RowPart& p : parts) all.most = std::max(all.most, p.most);
  for (const RowPart& p : parts) all.sum += p.sum * std::exp(p.most - all.most), all.target += p.target;
  return all;
}
/// -log p of the target.
inline double loss_of_row(const RowPart& all) { return std::log(all.sum) + all.most - all.target; }
/// What a part's e is multiplied by to be scale·p.
inline double factor_of_part(const RowPart& part, const RowPart& all, double scale) {
  return scale / all.sum * std::exp(part.most - all.most);
}

}  // namespace tern
