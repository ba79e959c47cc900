// LARS, layer-wise adaptive rate scaling: λ = trust·‖w‖ / (‖g‖ + wd·‖w‖ + ε); u = β u + lr·λ·(g + wd·w), w -= u. What does not decay
// (norms, biases) has λ = 1, and so has a parameter whose weights or gradients are all zero.
// Source: You, Gitman & Ginsburg 2017, arXiv:1708.03888, algorithm 1; ε and the exceptions as timm has them.
#include <cmath>

#include "kernels/cpu/optimizer.h"
#include "kernels/cpu/vector.h"
#include "kernels/ref/optimizer_ref.h"
#include "update/rule.h"

namespace tern {
namespace {

UpdateSumValues measure(const UpdateShard& s) {
  if (!s.decays) return {};
  if (s.master.dtype() == DType::f64) {
    const std::span<const double> w = s.master.span<double>(), g = s.gradient.span<double>();
    return {decayed_squares_ref(0, g, 1, w), decayed_squares_ref(1, g, 0, w)};
  }
  return {sum_of_squares(std::span<const float>(s.master.span<float>())),
          sum_of_squares(std::span<const float>(s.gradient.span<float>()))};
}

void step(const UpdateShard& s) {
  const double weight = std::sqrt(s.sums[0]), gradient = s.norm.coefficient * std::sqrt(s.sums[1]);
  double rate = s.learning_rate;
  if (weight > 0 && gradient > 0)
    rate *= s.config.option("trust") * weight / (gradient + s.decay() * weight + s.config.option("epsilon"));
  const SgdStep scalars{.learning_rate = 1,  // the rate is inside the velocity, as the paper has it
                        .momentum = s.config.option("momentum"),
                        .weight_decay = rate * s.decay(),
                        .gradient_scale = rate * s.norm.coefficient};
  sgd_step_of(s, scalars);
}

}  // namespace

const UpdateFunctions lars_rule{.step = step, .measure = measure};

}  // namespace tern
