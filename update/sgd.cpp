// Stochastic gradient descent, with momentum where it is not 0. Formula: kernels/cpu/optimizer.h.
#include "kernels/cpu/optimizer.h"
#include "kernels/ref/optimizer_ref.h"
#include "update/rule.h"

namespace tern {
void sgd_step_of(const UpdateShard& s, const SgdStep& scalars) {
  const Tensor& velocity = s.slots[0];
  if (s.master.dtype() == DType::f64)
    sgd_step_ref(scalars, s.gradient.span<double>(), s.master.span<double>(), span_or_empty<double>(velocity));
  else
    sgd_step(scalars, s.gradient.span<float>(), s.master.span<float>(), span_or_empty<float>(velocity),
             span_or_empty<bf16>(s.compute));
  s.gradient.fill_zero();
}

namespace {

void step(const UpdateShard& s) {
  sgd_step_of(s, {.learning_rate = s.learning_rate,
                  .momentum = s.config.option("momentum"),
                  .weight_decay = s.decay(),
                  .gradient_scale = s.norm.coefficient});
}

}  // namespace

const UpdateFunctions sgd_rule{.step = step};

}  // namespace tern
