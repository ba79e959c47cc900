#include "kernels/cpu/matrix_scale.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/cpu/parallel.h"

namespace tern {
namespace {

void check(const char* who, size_t values, int64_t rows, int64_t columns, size_t others, int64_t wanted) {
  TERN_CHECK(static_cast<int64_t>(values) == rows * columns && static_cast<int64_t>(others) == wanted,
             "{}: {} values of ({}, {}), {} beside", who, values, rows, columns, others);
}

}  // namespace

// Eight chains in one fixed order, as sum_of_squares.
template <class T>
void row_squares(std::span<const T> x, int64_t rows, int64_t columns, std::span<T> out) {
  check("row_squares", x.size(), rows, columns, out.size(), rows);
  constexpr int64_t kChains = 8;
  parallel_ranges(rows, row_grain(columns), 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const T* row = x.data() + r * columns;
      double part[kChains] = {};
      int64_t c = 0;
      for (; c + kChains <= columns; c += kChains)
        for (int64_t k = 0; k < kChains; ++k)
          part[k] += static_cast<double>(row[c + k]) * static_cast<double>(row[c + k]);
      for (int64_t k = 0; c < columns; ++c, ++k) part[k] += static_cast<double>(row[c]) * static_cast<double>(row[c]);
      out[static_cast<size_t>(r)] =
          static_cast<T>(((part[0] + part[4]) + (part[2] + part[6])) + ((part[1] + part[5]) + (part[3] + part[7])));
    }
  });
}

template <class T>
void column_squares(std::span<const T> x, int64_t rows, int64_t columns, std::span<T> out) {
  check("column_squares", x.size(), rows, columns, out.size(), columns);
  constexpr int64_t kStrip = 64;  // columns whose sums stay in the first cache
  parallel_ranges(columns, row_grain(rows), kStrip, [&](int64_t begin, int64_t end) {
    for (int64_t c0 = begin; c0 < end; c0 += kStrip) {
      const int64_t width = std::min(kStrip, end - c0);
      double sums[kStrip] = {};
      for (int64_t r = 0; r < rows; ++r) {
        const T* row = x.data() + r * columns + c0;
        for (int64_t c = 0; c < width; ++c) sums[c] += static_cast<double>(row[c]) * static_cast<double>(row[c]);
      }
      for (int64_t c = 0; c < width; ++c) out[static_cast<size_t>(c0 + c)] = static_cast<T>(sums[c]);
    }
  });
}

template <class T>
void scale_rows(std::span<T> x, int64_t rows, int64_t columns, std::span<const T> scale) {
  check("scale_rows", x.size(), rows, columns, scale.size(), rows);
  parallel_ranges(rows, row_grain(columns), 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      for (int64_t i = r * columns; i < (r + 1) * columns; ++i)
        x[static_cast<size_t>(i)] *= scale[static_cast<size_t>(r)];
  });
}

template <class T>
void scale_columns(std::span<T> x, int64_t rows, int64_t columns, std::span<const T> scale) {
  check("scale_columns", x.size(), rows, columns, scale.size(), columns);
  parallel_ranges(rows, row_grain(columns), 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      T* row = x.data() + r * columns;
      for (int64_t c = 0; c < columns; ++c) row[c] *= scale[static_cast<size_t>(c)];
    }
  });
}

#define TERN_INSTANTIATE(T)                                                         \
  template void row_squares(std::span<const T>, int64_t, int64_t, std::span<T>);    \
  template void column_squares(std::span<const T>, int64_t, int64_t, std::span<T>); \
  template void scale_rows(std::span<T>, int64_t, int64_t, std::span<const T>);     \
  template void scale_columns(std::span<T>, int64_t, int64_t, std::span<const T>);
TERN_INSTANTIATE(float)
TERN_INSTANTIATE(double)

}  // namespace tern
