// LAMB: Adam's direction r with the decay in it, scaled for each parameter to the length of its weights: w -= lr·(‖w‖/‖r‖)·r. What
// does not decay is not scaled, nor is a parameter with ‖w‖ = 0 or ‖r‖ = 0. Formula and source: kernels/cpu/optimizer.h.
#include <cmath>

#include "kernels/cpu/optimizer.h"
#include "kernels/ref/optimizer_ref.h"
#include "update/rule.h"

namespace tern {
namespace {

// The first pass: moments, and the sums of their direction. The gradient is not needed any more.
UpdateSumValues measure(const UpdateShard& s) {
  const Tensor &m = s.slots[0], &v = s.slots[1];
  if (s.master.dtype() == DType::f64) {
    const LambSums sums = lamb_moments_ref(adamw_step_numbers(s), s.gradient.span<double>(), s.master.span<double>(),
                                           m.span<double>(), v.span<double>());
    s.gradient.fill_zero();
    return {sums.weight, sums.direction};
  }
  const LambSums sums = lamb_moments(adamw_step_numbers(s), s.gradient.span<float>(), s.master.span<float>(),
                                     m.span<float>(), v.span<float>());
  return {sums.weight, sums.direction};
}

void step(const UpdateShard& s) {
  const bool scaled = s.decays && s.sums[0] > 0 && s.sums[1] > 0;
  const double ratio = scaled ? std::sqrt(s.sums[0] / s.sums[1]) : 1;
  const Tensor &m = s.slots[0], &v = s.slots[1];
  if (s.master.dtype() == DType::f64)
    lamb_step_ref(adamw_step_numbers(s), ratio, s.master.span<double>(), m.span<double>(), v.span<double>());
  else
    lamb_step(adamw_step_numbers(s), ratio, s.master.span<float>(), m.span<float>(), v.span<float>(),
              span_or_empty<bf16>(s.compute));
}

}  // namespace

const UpdateFunctions lamb_rule{.step = step, .measure = measure};

}  // namespace tern
