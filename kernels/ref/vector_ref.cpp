#include "kernels/ref/vector_ref.h"

#include <cmath>
#include <cstddef>

namespace tern {

void add_ref(std::span<const double> x, std::span<double> y) {
  for (size_t i = 0; i < y.size(); ++i) y[i] += x[i];
}

void add_bias_ref(std::span<const double> bias, std::span<double> y) {
  for (size_t i = 0; i < y.size(); ++i) y[i] += bias[i % bias.size()];
}

void add_scaled_columns_ref(double factor, std::span<const double> x, int64_t width, std::span<double> y,
                            int64_t stride, int64_t column) {
  const auto w = static_cast<size_t>(width);
  for (size_t i = 0; i < x.size(); ++i)
    y[i / w * static_cast<size_t>(stride) + static_cast<size_t>(column) + i % w] += factor * x[i];
}

void bias_backward_ref(std::span<const double> dy, std::span<double> db) {
  for (size_t i = 0; i < dy.size(); ++i) db[i % db.size()] += dy[i];
}

void gather_rows_ref(std::span<const double> table, int64_t width, std::span<const int32_t> ids, std::span<double> y) {
  const auto w = static_cast<size_t>(width);
  for (size_t r = 0; r < ids.size(); ++r)
    for (size_t j = 0; j < w; ++j) y[r * w + j] = table[static_cast<size_t>(ids[r]) * w + j];
}

void gather_rows_add_ref(std::span<const double> table, int64_t width, std::span<const int32_t> ids,
                         std::span<double> y) {
  const auto w = static_cast<size_t>(width);
  for (size_t r = 0; r < ids.size(); ++r)
    for (size_t j = 0; j < w; ++j) y[r * w + j] += table[static_cast<size_t>(ids[r]) * w + j];
}

void scatter_rows_add_ref(std::span<const double> dy, int64_t width, std::span<const int32_t> ids,
                          std::span<double> dtable) {
  const auto w = static_cast<size_t>(width);
  for (size_t r = 0; r < ids.size(); ++r)
    for (size_t j = 0; j < w; ++j) dtable[static_cast<size_t>(ids[r]) * w + j] += dy[r * w + j];
}

double sum_of_squares_ref(std::span<const double> x) {
  double sum = 0;
  for (const double v : x) sum += v * v;
  return sum;
}

bool all_finite_ref(std::span<const double> x) {
  for (const double v : x)
    if (!std::isfinite(v)) return false;
  return true;
}

}  // namespace tern
