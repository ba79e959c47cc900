#pragma once
// Softmax cross-entropy on one tile of logits, in f32, in place. Twin: kernels/ref/cross_entropy_ref.h.

#include <cstdint>
#include <span>

namespace tern {

/// For each row r with target ≥ 0: losses[r] = log Σ exp(logits) - logits[target]; then logits become
/// scale·(softmax - onehot(target)). Rows with target < 0 (no loss): losses[r] = 0, gradient zero.
/// Shapes  logits (rows, vocab), targets (rows), losses (rows). `weights` (rows) multiplies scale, or is empty.
void cross_entropy_forward_backward(int64_t vocab, std::span<const int32_t> targets, std::span<const float> weights,
                                    float scale, std::span<float> logits, std::span<float> losses);
/// The losses alone; logits stay as they are. Order: fixed within a row.
void cross_entropy(int64_t vocab, std::span<const int32_t> targets, std::span<const float> logits,
                   std::span<float> losses);

}  // namespace tern
