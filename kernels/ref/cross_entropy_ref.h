#pragma once
// The plain twin (reference implementation) of kernels/cpu/cross_entropy.h, in doubles.

#include <cstdint>
#include <span>

namespace tern {

/// losses[r] = log Σ exp(logits) - logits[target]; logits become scale·weight·(softmax -
/// onehot(target)). Both are zero in rows with target < 0. weights (rows), or empty for 1.
void cross_entropy_forward_backward_ref(int64_t vocab, std::span<const int32_t> targets,
                                        std::span<const double> weights, double scale, std::span<double> logits,
                                        std::span<double> losses);
void cross_entropy_ref(int64_t vocab, std::span<const int32_t> targets, std::span<const double> logits,
                       std::span<double> losses);

}  // namespace tern
