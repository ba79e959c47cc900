#pragma once
// The plain twins (reference implementations) of kernels/cpu/matmul.h, in doubles. Units that are checked in f64 run on them too.

#include <cstdint>
#include <span>

namespace tern {

/// y (m, n) = x (m, k)·w (n, k)ᵀ + bias (n, or empty); if `add`, y +=.
void multiply_ref(std::span<const double> x, std::span<const double> w, std::span<const double> bias, int64_t m,
                  int64_t n, int64_t k, bool add, std::span<double> y);
/// dx (m, k) = dy (m, n)·w (n, k); if `add`, dx +=.
void multiply_nn_ref(std::span<const double> dy, std::span<const double> w, int64_t m, int64_t n, int64_t k, bool add,
                     std::span<double> dx);
/// dw (n, k) += dyᵀ·x, with dy (m, n), x (m, k). Rows m ascending.
void multiply_tn_ref(std::span<const double> dy, std::span<const double> x, int64_t m, int64_t n, int64_t k,
                     std::span<double> dw);

}  // namespace tern
