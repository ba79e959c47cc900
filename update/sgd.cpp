// Stochastic gradient descent, with momentum where it is not 0. Formula: kernels/cpu/optimizer.h.
#include "kernels/cpu/optimizer.h"
#include "kernels/ref/optimizer_ref.h"
#include "update/rule.h"

namespace tern {

void sgd_update(const UpdateShard& s) {
  const SgdStep step{.learning_rate = s.learning_rate,
                     .momentum = s.config.option("momentum"),
                     .weight_decay = s.decays ? s.config.option("weight-decay") : 0.0,
                     .gradient_scale = s.norm.coefficient};
  const Tensor& velocity = s.slots[0];
  if (s.master.dtype() == DType::f64)
    sgd_step_ref(step, s.gradient.span<double>(), s.master.span<double>(), span_or_empty<double>(velocity));
  else
    sgd_step(step, s.gradient.span<float>(), s.master.span<float>(), span_or_empty<float>(velocity),
             span_or_empty<bf16>(s.rounded));
  s.gradient.fill_zero();
}

}  // namespace tern
