#include "kernels/cpu/adafactor.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "kernels/cpu/matrix_scale.h"
#include "kernels/cpu/optimizer.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vector.h"

namespace tern {
namespace {

double share_of(const AdafactorStep& s) { return std::pow(static_cast<double>(s.step), -0.8); }

// Decay, and a step along u, which stands in the gradient's place.
void finish(const AdafactorStep& s, std::span<float> u, std::span<float> weight, std::span<bf16> compute) {
  const auto count = static_cast<double>(weight.size());
  const double length = std::sqrt(sum_of_squares(std::span<const float>(weight)) / count);
  const double rate = std::min(s.learning_rate, 1 / std::sqrt(static_cast<double>(s.step)));
  const double spread = std::sqrt(sum_of_squares(std::span<const float>(u)) / count);
  direction_step(s.learning_rate * s.weight_decay, std::max(kAdafactorScale, length) * rate / std::max(1.0, spread), u,
                 weight, compute);
}

// kept += share·(present - kept), present the mean of squares.
void move(std::span<float> kept, std::span<const float> squares, double share, double scale) {
  for (size_t i = 0; i < kept.size(); ++i)
    kept[i] = static_cast<float>(kept[i] + share * (scale * squares[i] - kept[i]));
}

}  // namespace

void adafactor_matrix_step(const AdafactorStep& s, int64_t rows, int64_t columns, std::span<float> gradient,
                           std::span<float> weight, std::span<float> row, std::span<float> column,
                           std::span<float> means, std::span<bf16> compute) {
  TERN_CHECK(std::ssize(weight) == rows * columns && gradient.size() == weight.size() && std::ssize(row) == rows &&
                 std::ssize(column) == columns && std::ssize(means) == rows + columns && s.step >= 1,
             "adafactor_matrix_step: ({}, {}), {} weights, {} gradients, means of {} and {}, {} to work with", rows,
             columns, weight.size(), gradient.size(), row.size(), column.size(), means.size());
  const std::span<float> of_rows = means.first(row.size()), of_columns = means.subspan(row.size());
  const double share = share_of(s), squared = s.gradient_scale * s.gradient_scale;
  row_squares<float>(gradient, rows, columns, of_rows);
  column_squares<float>(gradient, rows, columns, of_columns);
  move(row, of_rows, share, squared / static_cast<double>(columns));
  move(column, of_columns, share, squared / static_cast<double>(rows));

  double mean = 0;
  for (const float x : row) mean += x;
  mean = std::max(mean / static_cast<double>(rows), kAdafactorRoot);
  for (size_t r = 0; r < row.size(); ++r) of_rows[r] = static_cast<float>(row[r] / mean);
  const auto scale = static_cast<float>(s.gradient_scale), least = static_cast<float>(kAdafactorRoot * kAdafactorRoot);
  parallel_ranges(rows, row_grain(columns), 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      float* g = gradient.data() + r * columns;
      const float of_row = of_rows[static_cast<size_t>(r)];
      for (int64_t c = 0; c < columns; ++c)
        g[c] = scale * g[c] / std::sqrt(std::max(of_row * column[static_cast<size_t>(c)], least));
    }
  });
  finish(s, gradient, weight, compute);
}

void adafactor_vector_step(const AdafactorStep& s, std::span<float> gradient, std::span<float> weight,
                           std::span<float> second, std::span<bf16> compute) {
  TERN_CHECK(gradient.size() == weight.size() && second.size() == weight.size() && s.step >= 1,
             "adafactor_vector_step: {} weights, {} gradients, {} moments", weight.size(), gradient.size(),
             second.size());
  const double share = share_of(s);
  for (size_t i = 0; i < weight.size(); ++i) {
    const double g = s.gradient_scale * gradient[i];
    const double v = second[i] + share * (g * g - second[i]);
    second[i] = static_cast<float>(v);
    gradient[i] = static_cast<float>(g / std::sqrt(std::max(v, kAdafactorRoot * kAdafactorRoot)));
  }
  finish(s, gradient, weight, compute);
}

}  // namespace tern
