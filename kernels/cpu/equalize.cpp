#include "kernels/cpu/equalize.h"

#include <cmath>

#include "base/error.h"
#include "kernels/cpu/matrix_scale.h"

namespace tern {
namespace {

// Sums of squares become root mean squares; the coefficient of variation of these.
double to_root_mean_squares(std::span<float> squares, int64_t count) {
  double sum = 0, of_squares = 0;
  for (float& x : squares) {
    const double root = std::sqrt(static_cast<double>(x) / static_cast<double>(count));
    sum += root, of_squares += root * root;
    x = static_cast<float>(root);
  }
  const auto n = static_cast<double>(squares.size());
  const double mean = sum / n;
  return mean > 0 ? std::sqrt(std::max(0.0, of_squares / n - mean * mean)) / mean : 0;
}

void invert(std::span<float> x) {
  for (float& value : x) value = value > 0 ? 1 / value : 0;
}

void check(const char* who, std::span<float> x, int64_t rows, int64_t columns, std::span<float> temporary) {
  TERN_CHECK(std::ssize(x) == rows * columns && std::ssize(temporary) == rows + columns,
             "{}: {} values of ({}, {}), {} to work with", who, x.size(), rows, columns, temporary.size());
}

}  // namespace

void equalize_uneven_side(std::span<float> x, int64_t rows, int64_t columns, std::span<float> temporary) {
  check("equalize_uneven_side", x, rows, columns, temporary);
  const auto of_rows = temporary.first(static_cast<size_t>(rows)),
             of_columns = temporary.subspan(static_cast<size_t>(rows));
  row_squares<float>(x, rows, columns, of_rows);
  column_squares<float>(x, rows, columns, of_columns);
  const double rows_vary = to_root_mean_squares(of_rows, columns),
               columns_vary = to_root_mean_squares(of_columns, rows);
  if (rows_vary >= columns_vary) {
    invert(of_rows);
    scale_rows<float>(x, rows, columns, of_rows);
  } else {
    invert(of_columns);
    scale_columns<float>(x, rows, columns, of_columns);
  }
}

void equalize_rows_then_columns(std::span<float> x, int64_t rows, int64_t columns, std::span<float> temporary) {
  check("equalize_rows_then_columns", x, rows, columns, temporary);
  const auto of_rows = temporary.first(static_cast<size_t>(rows)),
             of_columns = temporary.subspan(static_cast<size_t>(rows));
  row_squares<float>(x, rows, columns, of_rows);
  to_root_mean_squares(of_rows, columns);
  invert(of_rows);
  scale_rows<float>(x, rows, columns, of_rows);
  column_squares<float>(x, rows, columns, of_columns);
  to_root_mean_squares(of_columns, rows);
  invert(of_columns);
  scale_columns<float>(x, rows, columns, of_columns);
}

}  // namespace tern
