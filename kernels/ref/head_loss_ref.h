#pragma once
// The plain twin (reference implementation) of kernels/cpu/head_loss.h, in doubles.

#include <cstdint>
#include <span>

namespace tern {

/// z = x·wᵀ with x (rows, width), w (vocab, width); losses[r] = log Σ exp(z_r) - z_r,target; dz =
/// scale·(softmax - onehot); dx = dz·w, dw += dzᵀ·x. Loss and dz are zero in rows with target < 0.
void head_loss_ref(int64_t vocab, int64_t width, std::span<const int32_t> targets, double scale,
                   std::span<const double> x, std::span<const double> w, std::span<double> losses, std::span<double> dx,
                   std::span<double> dw);

}  // namespace tern
