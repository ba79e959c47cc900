// Lion: the sign of an average of gradients, decoupled decay. Formula and source: kernels/cpu/optimizer.h.
#include "kernels/cpu/optimizer.h"
#include "kernels/ref/optimizer_ref.h"
#include "update/rule.h"

namespace tern {
namespace {

void step(const UpdateShard& s) {
  const LionStep scalars{.learning_rate = s.learning_rate,
                         .beta1 = s.config.option("beta1"),
                         .beta2 = s.config.option("beta2"),
                         .weight_decay = s.decay(),
                         .gradient_scale = s.norm.coefficient};
  const Tensor& m = s.slots[0];
  if (s.master.dtype() == DType::f64) {
    lion_step_ref(scalars, s.gradient.span<double>(), s.master.span<double>(), m.span<double>());
    return s.gradient.fill_zero();
  }
  lion_step(scalars, s.gradient.span<float>(), s.master.span<float>(), m.span<float>(), span_or_empty<bf16>(s.compute));
}

}  // namespace

const UpdateFunctions lion_rule{.step = step};

}  // namespace tern
