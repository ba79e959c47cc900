#include "kernels/ref/optimizer_ref.h"

#include <cmath>
#include <cstddef>

namespace tern {

void adamw_step_ref(const AdamwStep& s, std::span<const double> gradient, std::span<double> weight, std::span<double> m,
                    std::span<double> v) {
  const double correction1 = 1 - std::pow(s.beta1, static_cast<double>(s.step));
  const double correction2 = 1 - std::pow(s.beta2, static_cast<double>(s.step));
  for (size_t i = 0; i < weight.size(); ++i) {
    const double g = s.gradient_scale * gradient[i];
    weight[i] -= s.learning_rate * s.weight_decay * weight[i];
    m[i] = s.beta1 * m[i] + (1 - s.beta1) * g;
    v[i] = s.beta2 * v[i] + (1 - s.beta2) * g * g;
    weight[i] -= s.learning_rate / correction1 * m[i] / (std::sqrt(v[i]) / std::sqrt(correction2) + s.epsilon);
  }
}

void sgd_step_ref(const SgdStep& s, std::span<const double> gradient, std::span<double> weight,
                  std::span<double> velocity) {
  for (size_t i = 0; i < weight.size(); ++i) {
    double u = s.gradient_scale * gradient[i] + s.weight_decay * weight[i];
    if (!velocity.empty()) u = velocity[i] = s.momentum * velocity[i] + u;
    weight[i] -= s.learning_rate * u;
  }
}

void look_ahead_ref(double keep, double take, std::span<double> gradient, std::span<double> buffer) {
  for (size_t i = 0; i < buffer.size(); ++i) {
    buffer[i] = keep * buffer[i] + take * gradient[i];
    gradient[i] = take * gradient[i] + keep * buffer[i];
  }
}

void direction_step_ref(double decay, double step, std::span<const double> direction, std::span<double> weight) {
  for (size_t i = 0; i < weight.size(); ++i) weight[i] -= decay * weight[i] + step * direction[i];
}

double decayed_squares_ref(double scale, std::span<const double> gradient, double decay,
                           std::span<const double> weight) {
  double sum = 0;
  for (size_t i = 0; i < weight.size(); ++i) sum += std::pow(scale * gradient[i] + decay * weight[i], 2);
  return sum;
}

void lion_step_ref(const LionStep& s, std::span<const double> gradient, std::span<double> weight, std::span<double> m) {
  for (size_t i = 0; i < weight.size(); ++i) {
    const double g = s.gradient_scale * gradient[i], u = s.beta1 * m[i] + (1 - s.beta1) * g;
    const double sign = u > 0 ? 1 : u < 0 ? -1 : 0;
    weight[i] -= s.learning_rate * (sign + s.weight_decay * weight[i]);
    m[i] = s.beta2 * m[i] + (1 - s.beta2) * g;
  }
}

namespace {

double lamb_direction(const AdamwStep& s, double w, double m, double v) {
  const double first = m / (1 - std::pow(s.beta1, static_cast<double>(s.step)));
  const double second = v / (1 - std::pow(s.beta2, static_cast<double>(s.step)));
  return first / (std::sqrt(second) + s.epsilon) + s.weight_decay * w;
}

}  // namespace

LambSums lamb_moments_ref(const AdamwStep& s, std::span<const double> gradient, std::span<const double> weight,
                          std::span<double> m, std::span<double> v) {
  LambSums sums;
  for (size_t i = 0; i < weight.size(); ++i) {
    const double g = s.gradient_scale * gradient[i];
    m[i] = s.beta1 * m[i] + (1 - s.beta1) * g;
    v[i] = s.beta2 * v[i] + (1 - s.beta2) * g * g;
    sums.weight += weight[i] * weight[i];
    sums.direction += std::pow(lamb_direction(s, weight[i], m[i], v[i]), 2);
  }
  return sums;
}

void lamb_step_ref(const AdamwStep& s, double ratio, std::span<double> weight, std::span<const double> m,
                   std::span<const double> v) {
  for (size_t i = 0; i < weight.size(); ++i)
    weight[i] -= s.learning_rate * ratio * lamb_direction(s, weight[i], m[i], v[i]);
}

// In the words of the paper: z and x, and y between them.
void schedule_free_step_ref(const ScheduleFreeStep& s, std::span<const double> gradient, std::span<double> x,
                            std::span<double> d, std::span<double> v, std::span<double> y) {
  const double correction = 1 - std::pow(s.beta2, static_cast<double>(s.step)), c = s.average_weight;
  for (size_t i = 0; i < x.size(); ++i) {
    const double g = s.gradient_scale * gradient[i];
    v[i] = s.beta2 * v[i] + (1 - s.beta2) * g * g;
    double z = x[i] + d[i];
    const double at = (1 - s.beta1) * z + s.beta1 * x[i];
    z -= s.learning_rate * (g / (std::sqrt(v[i] / correction) + s.epsilon) + s.weight_decay * at);
    x[i] = (1 - c) * x[i] + c * z;
    d[i] = z - x[i];
  }
  schedule_free_place_ref(s.beta1, x, d, y);
}

void schedule_free_place_ref(double beta1, std::span<const double> x, std::span<const double> d, std::span<double> y) {
  for (size_t i = 0; i < x.size(); ++i) y[i] = (1 - beta1) * (x[i] + d[i]) + beta1 * x[i];
}

}  // namespace tern
