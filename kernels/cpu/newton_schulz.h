#pragma once
// An approximation of a matrix's orthogonal polar factor, by matrix products alone. Twin: kernels/ref/newton_schulz_ref.h.

#include <cstdint>
#include <span>

#include "kernels/cpu/thread_scratch.h"

namespace tern {

/// Coefficients a, b, c of the step X <- aX + (bA + cA²)X with A = XXᵀ. Muon takes five such steps.
/// Source: Jordan et al. 2024, Muon (its public code); PyTorch's torch.optim.Muon has the same.
inline constexpr double kNewtonSchulz[3] = {3.4445, -4.7750, 2.0315};
inline constexpr int kNewtonSchulzSteps = 5;

/// Elements of `temporary` below: long·short + 2·short², where long and short are the two sides of the matrix.
int64_t newton_schulz_elements(int64_t rows, int64_t columns);
/// matrix (rows, columns) becomes the result of five steps that begin with matrix / max(‖matrix‖_F, 1e-7): a singular
/// value that was at least 0.01 of the norm is then between 0.68 and 1.14. A matrix of zeros stays zero.
/// Order   products of kernels/cpu/symmetric_matmul.h and multiply_nn: threads change no bit, the instruction set does.
/// Work    5·(3·long·short² + short³) FLOPs.
void newton_schulz(std::span<float> matrix, int64_t rows, int64_t columns, std::span<float> temporary);
/// What threads keep (thread_scratch.h) for these products.
ThreadBytes newton_schulz_thread_bytes(int64_t rows, int64_t columns);

}  // namespace tern
