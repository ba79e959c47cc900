#include "update/low_rank.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/parallel.h"

namespace tern {
namespace {

// Takes what column k has of the columns before it; returns how long the rest is.
template <class T>
double take_earlier(std::span<T> f, int64_t rows, int64_t rank, int64_t k) {
  const auto at = [&](int64_t row, int64_t column) -> T& { return f[static_cast<size_t>(row * rank + column)]; };
  for (int64_t earlier = 0; earlier < k; ++earlier) {
    double dot = 0;
    for (int64_t row = 0; row < rows; ++row)
      dot += static_cast<double>(at(row, earlier)) * static_cast<double>(at(row, k));
    for (int64_t row = 0; row < rows; ++row) at(row, k) -= static_cast<T>(dot) * at(row, earlier);
  }
  double square = 0;
  for (int64_t row = 0; row < rows; ++row) square += static_cast<double>(at(row, k)) * static_cast<double>(at(row, k));
  return std::sqrt(square);
}

}  // namespace

LowRankForm low_rank_form(const Shape& shape, int rank) {
  const int64_t rows = shape.rank > 0 ? shape.sizes[0] : 1, columns = rows > 0 ? shape.count() / rows : 0;
  const int64_t most = std::min({static_cast<int64_t>(rank), rows, columns});
  const bool pays = shape.rank > 1 && most > 0 && most * (rows + columns) <= rows * columns;
  return {rows, columns, pays ? most : 0};
}

template <class T>
void orthonormalize(std::span<T> f, int64_t rows, int64_t rank, RngKey key) {
  const auto at = [&](int64_t row, int64_t column) -> T& { return f[static_cast<size_t>(row * rank + column)]; };
  constexpr int kDraws = 8;  // each is in the span of the others with probability zero
  for (int64_t k = 0; k < rank; ++k) {
    double length = 0;
    for (int draw = 0; draw <= kDraws; ++draw) {
      double before = 0;
      for (int64_t row = 0; row < rows; ++row) {
        if (draw > 0)
          at(row, k) = static_cast<T>(random_normal(key, static_cast<uint64_t>(((draw * rank) + k) * rows + row)));
        before += static_cast<double>(at(row, k)) * static_cast<double>(at(row, k));
      }
      before = std::sqrt(before);
      if (!std::isfinite(before)) {  // what is not finite stays so
        std::ranges::fill(f, static_cast<T>(NAN));
        return;
      }
      // Scaled first, so that the second pass takes what the first one's rounding left.
      for (int64_t row = 0; before > 0 && row < rows; ++row)
        at(row, k) = static_cast<T>(static_cast<double>(at(row, k)) / before);
      if (before > 0 && take_earlier(f, rows, rank, k) > 1e-5) {
        length = take_earlier(f, rows, rank, k);
        break;
      }
    }
    for (int64_t row = 0; row < rows; ++row)
      at(row, k) = length > 0 ? static_cast<T>(static_cast<double>(at(row, k)) / length) : T{0};
  }
}

template <class T>
void times_right(std::span<const T> m, std::span<const T> q, const LowRankForm& form, std::span<T> p) {
  const auto columns = static_cast<size_t>(form.columns), rank = static_cast<size_t>(form.factor_rank);
  parallel_ranges(form.rows, row_grain(form.columns), 1, [=](int64_t begin, int64_t end) {
    for (auto row = static_cast<size_t>(begin); row < static_cast<size_t>(end); ++row) {
      const std::span<T> out = p.subspan(row * rank, rank);
      std::ranges::fill(out, T{0});
      for (size_t column = 0; column < columns; ++column)
        for (size_t k = 0; k < rank; ++k) out[k] += m[row * columns + column] * q[column * rank + k];
    }
  });
}

template <class T>
void times_left(std::span<const T> m, std::span<const T> p, const LowRankForm& form, std::span<T> q) {
  const auto rows = static_cast<size_t>(form.rows), columns = static_cast<size_t>(form.columns);
  const auto rank = static_cast<size_t>(form.factor_rank);
  parallel_ranges(form.columns, row_grain(form.rows), 16, [=](int64_t begin, int64_t end) {
    const auto first = static_cast<size_t>(begin), last = static_cast<size_t>(end);
    std::ranges::fill(q.subspan(first * rank, (last - first) * rank), T{0});
    for (size_t row = 0; row < rows; ++row)
      for (size_t column = first; column < last; ++column)
        for (size_t k = 0; k < rank; ++k) q[column * rank + k] += m[row * columns + column] * p[row * rank + k];
  });
}

template <class T>
void expand(std::span<const T> p, std::span<const T> q, const LowRankForm& form, std::span<T> out, std::span<T> left) {
  const auto columns = static_cast<size_t>(form.columns), rank = static_cast<size_t>(form.factor_rank);
  parallel_ranges(form.rows, row_grain(form.columns), 1, [=](int64_t begin, int64_t end) {
    for (auto row = static_cast<size_t>(begin); row < static_cast<size_t>(end); ++row)
      for (size_t column = 0; column < columns; ++column) {
        T sum = 0;
        for (size_t k = 0; k < rank; ++k) sum += p[row * rank + k] * q[column * rank + k];
        out[row * columns + column] = sum;
        if (!left.empty()) left[row * columns + column] -= sum;
      }
  });
}

template void orthonormalize(std::span<float>, int64_t, int64_t, RngKey);
template void orthonormalize(std::span<double>, int64_t, int64_t, RngKey);
template void times_right(std::span<const float>, std::span<const float>, const LowRankForm&, std::span<float>);
template void times_right(std::span<const double>, std::span<const double>, const LowRankForm&, std::span<double>);
template void times_left(std::span<const float>, std::span<const float>, const LowRankForm&, std::span<float>);
template void times_left(std::span<const double>, std::span<const double>, const LowRankForm&, std::span<double>);
template void expand(std::span<const float>, std::span<const float>, const LowRankForm&, std::span<float>,
                     std::span<float>);
template void expand(std::span<const double>, std::span<const double>, const LowRankForm&, std::span<double>,
                     std::span<double>);

}  // namespace tern
