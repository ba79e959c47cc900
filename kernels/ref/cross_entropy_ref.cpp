#include "kernels/ref/cross_entropy_ref.h"

#include <algorithm>
#include <cmath>

namespace tern {
namespace {

/// log Σ exp(x), shifted by the maximum so that no term overflows.
double log_sum_exp(std::span<const double> x) {
  const double top = *std::max_element(x.begin(), x.end());
  double sum = 0;
  for (const double v : x) sum += std::exp(v - top);
  return std::log(sum) + top;
}

}  // namespace

void cross_entropy_ref(int64_t vocab, std::span<const int32_t> targets, std::span<const double> logits,
                       std::span<double> losses) {
  for (size_t r = 0; r < targets.size(); ++r) {
    const auto x = logits.subspan(r * vocab, vocab);
    losses[r] = targets[r] < 0 ? 0 : log_sum_exp(x) - x[targets[r]];
  }
}

void cross_entropy_forward_backward_ref(int64_t vocab, std::span<const int32_t> targets,
                                        std::span<const double> weights, double scale, std::span<double> logits,
                                        std::span<double> losses) {
  cross_entropy_ref(vocab, targets, logits, losses);
  for (size_t r = 0; r < targets.size(); ++r) {
    const auto x = logits.subspan(r * vocab, vocab);
    const double lse = targets[r] < 0 ? 0 : log_sum_exp(x);
    for (int64_t i = 0; i < vocab; ++i) {
      const double softmax = std::exp(x[i] - lse), onehot = i == targets[r] ? 1 : 0;
      x[i] = targets[r] < 0 ? 0 : scale * (weights.empty() ? 1 : weights[r]) * (softmax - onehot);
    }
  }
}

}  // namespace tern
