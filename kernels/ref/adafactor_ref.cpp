#include "kernels/ref/adafactor_ref.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace tern {
namespace {

double root_mean_square(std::span<const double> x) {
  double sum = 0;
  for (const double value : x) sum += value * value;
  return std::sqrt(sum / static_cast<double>(x.size()));
}

void finish(const AdafactorStep& s, std::span<const double> gradient, std::span<const double> second,
            std::span<double> weight) {
  std::vector<double> u(weight.size());
  for (size_t i = 0; i < u.size(); ++i)
    u[i] = s.gradient_scale * gradient[i] / std::sqrt(std::max(second[i], kAdafactorRoot * kAdafactorRoot));
  const double rate = std::min(s.learning_rate, 1 / std::sqrt(static_cast<double>(s.step)));
  const double alpha = std::max(kAdafactorScale, root_mean_square(weight)) * rate;
  const double clip = std::max(1.0, root_mean_square(u));
  for (size_t i = 0; i < u.size(); ++i) {
    weight[i] -= s.learning_rate * s.weight_decay * weight[i];
    weight[i] -= alpha / clip * u[i];
  }
}

double moved(double kept, double present, int64_t step) {
  const double share = std::pow(static_cast<double>(step), -0.8);
  return (1 - share) * kept + share * present;
}

}  // namespace

void adafactor_matrix_step_ref(const AdafactorStep& s, int64_t rows, int64_t columns, std::span<const double> gradient,
                               std::span<double> weight, std::span<double> row, std::span<double> column) {
  const auto square = [&](int64_t r, int64_t c) {
    return std::pow(s.gradient_scale * gradient[static_cast<size_t>(r * columns + c)], 2);
  };
  double mean = 0;
  for (int64_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (int64_t c = 0; c < columns; ++c) sum += square(r, c);
    double& kept = row[static_cast<size_t>(r)];
    kept = moved(kept, sum / static_cast<double>(columns), s.step);
    mean += kept / static_cast<double>(rows);
  }
  for (int64_t c = 0; c < columns; ++c) {
    double sum = 0;
    for (int64_t r = 0; r < rows; ++r) sum += square(r, c);
    double& kept = column[static_cast<size_t>(c)];
    kept = moved(kept, sum / static_cast<double>(rows), s.step);
  }
  std::vector<double> second(weight.size());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      second[static_cast<size_t>(r * columns + c)] =
          row[static_cast<size_t>(r)] * column[static_cast<size_t>(c)] / std::max(mean, kAdafactorRoot);
  finish(s, gradient, second, weight);
}

void adafactor_vector_step_ref(const AdafactorStep& s, std::span<const double> gradient, std::span<double> weight,
                               std::span<double> second) {
  for (size_t i = 0; i < weight.size(); ++i)
    second[i] = moved(second[i], std::pow(s.gradient_scale * gradient[i], 2), s.step);
  finish(s, gradient, second, weight);
}

}  // namespace tern
