#pragma once
// Products and transposes of whole matrices, for rules that project gradients or rotate them into another basis. f32 uses tern's kernels,
// f64 their reference implementations. All matrices are row-major.
// Order  as kernels/cpu/matmul.h: threads change no bit, the instruction set does.

#include <algorithm>
#include <cstdint>
#include <span>

#include "kernels/cpu/matmul.h"
#include "kernels/cpu/parallel.h"
#include "kernels/ref/matmul_ref.h"

namespace tern {

/// y (m, n) = a (m, k) · b (k, n). The name is as in BLAS: nn, neither factor is transposed.
inline void product_nn(std::span<const float> a, std::span<const float> b, int64_t m, int64_t k, int64_t n,
                       std::span<float> y) {
  multiply_nn<float>(a, b, m, k, n, false, y);
}
inline void product_nn(std::span<const double> a, std::span<const double> b, int64_t m, int64_t k, int64_t n,
                       std::span<double> y) {
  multiply_nn_ref(a, b, m, k, n, false, y);
}
/// y (m, n) = aᵀ · b, with a (k, m) and b (k, n): tn, the first factor is transposed.
inline void product_tn(std::span<const float> a, std::span<const float> b, int64_t m, int64_t k, int64_t n,
                       std::span<float> y) {
  std::ranges::fill(y, 0.0f);
  multiply_tn<float>(a, b, k, m, n, y);
}
inline void product_tn(std::span<const double> a, std::span<const double> b, int64_t m, int64_t k, int64_t n,
                       std::span<double> y) {
  std::ranges::fill(y, 0.0);
  multiply_tn_ref(a, b, k, m, n, y);
}
/// Scratch that threads keep after such a product in f32.
inline ThreadBytes product_nn_thread_bytes(int64_t m, int64_t k, int64_t n) {
  return nn_thread_bytes(DType::f32, m, k, n);
}
inline ThreadBytes product_tn_thread_bytes(int64_t m, int64_t k, int64_t n) {
  return tn_thread_bytes(DType::f32, k, m, n);
}

/// y (columns, rows) = xᵀ, for x (rows, columns), in tiles that fit into the L1 cache.
template <class T>
void transpose(std::span<const T> x, int64_t rows, int64_t columns, std::span<T> y) {
  constexpr int64_t kSide = 32;
  parallel_ranges(columns, row_grain(rows), kSide, [&](int64_t first, int64_t last) {
    for (int64_t c0 = first; c0 < last; c0 += kSide)
      for (int64_t r0 = 0; r0 < rows; r0 += kSide)
        for (int64_t c = c0; c < std::min(last, c0 + kSide); ++c)
          for (int64_t r = r0; r < std::min(rows, r0 + kSide); ++r)
            y[static_cast<size_t>(c * rows + r)] = x[static_cast<size_t>(r * columns + c)];
  });
}

}  // namespace tern
