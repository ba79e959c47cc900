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

}  // namespace tern
