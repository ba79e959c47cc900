#include "kernels/ref/equalize_ref.h"

#include <cmath>
#include <vector>

namespace tern {
namespace {

// One side of a matrix: `lines` lines of `length` values, value i of line k at k·step + i·stride.
struct Side {
  int64_t lines, length, step, stride;
};
Side rows_of(int64_t rows, int64_t columns) { return {rows, columns, columns, 1}; }
Side columns_of(int64_t rows, int64_t columns) { return {columns, rows, 1, columns}; }

double root_mean_square(std::span<const double> x, const Side& side, int64_t line) {
  double sum = 0;
  for (int64_t i = 0; i < side.length; ++i)
    sum += std::pow(x[static_cast<size_t>(line * side.step + i * side.stride)], 2);
  return std::sqrt(sum / static_cast<double>(side.length));
}

double coefficient_of_variation(std::span<const double> x, const Side& side) {
  double mean = 0, variance = 0;
  const auto n = static_cast<double>(side.lines);
  for (int64_t k = 0; k < side.lines; ++k) mean += root_mean_square(x, side, k) / n;
  for (int64_t k = 0; k < side.lines; ++k) variance += std::pow(root_mean_square(x, side, k) - mean, 2) / n;
  return mean > 0 ? std::sqrt(variance) / mean : 0;
}

void equalize(std::span<double> x, const Side& side) {
  for (int64_t k = 0; k < side.lines; ++k) {
    const double root = root_mean_square(x, side, k);
    if (root > 0)
      for (int64_t i = 0; i < side.length; ++i) x[static_cast<size_t>(k * side.step + i * side.stride)] /= root;
  }
}

}  // namespace

void equalize_uneven_side_ref(std::span<double> x, int64_t rows, int64_t columns) {
  const Side a = rows_of(rows, columns), b = columns_of(rows, columns);
  equalize(x, coefficient_of_variation(x, a) >= coefficient_of_variation(x, b) ? a : b);
}

void equalize_rows_then_columns_ref(std::span<double> x, int64_t rows, int64_t columns) {
  equalize(x, rows_of(rows, columns));
  equalize(x, columns_of(rows, columns));
}

}  // namespace tern
