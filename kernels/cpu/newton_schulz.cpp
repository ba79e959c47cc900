#include "kernels/cpu/newton_schulz.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/symmetric_matmul.h"
#include "kernels/cpu/vector.h"

namespace tern {
namespace {

// y (columns, rows) = scale · xᵀ, x (rows, columns), in squares that stay in the first cache.
void transpose(const float* x, int64_t rows, int64_t columns, float scale, float* y) {
  constexpr int64_t kSide = 32;
  parallel_ranges(columns, row_grain(rows), kSide, [&](int64_t first, int64_t last) {
    for (int64_t c0 = first; c0 < last; c0 += kSide)
      for (int64_t r0 = 0; r0 < rows; r0 += kSide)
        for (int64_t c = c0; c < std::min(last, c0 + kSide); ++c)
          for (int64_t r = r0; r < std::min(rows, r0 + kSide); ++r) y[c * rows + r] = scale * x[r * columns + c];
  });
}

// p = b·a + c·p, then a's coefficient on the diagonal: X·p is the whole step.
void polynomial(const float* a, int64_t side, float* p) {
  const auto first = static_cast<float>(kNewtonSchulz[0]), second = static_cast<float>(kNewtonSchulz[1]),
             third = static_cast<float>(kNewtonSchulz[2]);
  parallel_ranges(side, row_grain(side), 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t i = r * side; i < (r + 1) * side; ++i) p[i] = second * a[i] + third * p[i];
      p[r * side + r] += first;
    }
  });
}

}  // namespace

int64_t newton_schulz_elements(int64_t rows, int64_t columns) {
  const int64_t side = std::min(rows, columns);
  return rows * columns + 2 * side * side;
}

// X stands with its long side as rows, so that XᵀX and X·P are products of the plain layout.
void newton_schulz(std::span<float> matrix, int64_t rows, int64_t columns, std::span<float> temporary) {
  const int64_t side = std::min(rows, columns), length = std::max(rows, columns), count = rows * columns;
  TERN_CHECK(std::ssize(matrix) == count && std::ssize(temporary) == newton_schulz_elements(rows, columns),
             "newton_schulz: {} values of ({}, {}), {} to work with", matrix.size(), rows, columns, temporary.size());
  const double norm = std::max(std::sqrt(sum_of_squares(std::span<const float>(matrix))), 1e-7);
  const auto scale = static_cast<float>(1 / norm);
  const auto all = static_cast<size_t>(count), square = static_cast<size_t>(side * side);
  std::span<float> x = temporary.first(all), y = matrix;
  const std::span<float> a = temporary.subspan(all, square), p = temporary.subspan(all + square, square);
  if (rows >= columns)
    parallel_ranges(count, kParallelGrain, 64, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) x[static_cast<size_t>(i)] = scale * matrix[static_cast<size_t>(i)];
    });
  else
    transpose(matrix.data(), rows, columns, scale, x.data());
  for (int step = 0; step < kNewtonSchulzSteps; ++step) {
    gram(x, length, side, a);
    square_symmetric(a, side, p);
    polynomial(a.data(), side, p.data());
    multiply_nn<float>(x, p, length, side, side, false, y);
    std::swap(x, y);
  }
  static_assert(kNewtonSchulzSteps % 2 == 1, "after an odd number of steps x is the matrix");
  if (rows >= columns) return;
  transpose(x.data(), length, side, 1, y.data());
  std::copy(y.begin(), y.end(), matrix.begin());
}

ThreadBytes newton_schulz_thread_bytes(int64_t rows, int64_t columns) {
  const int64_t side = std::min(rows, columns), length = std::max(rows, columns);
  return most(tn_thread_bytes(DType::f32, length, side, side), nn_thread_bytes(DType::f32, length, side, side));
}

}  // namespace tern
