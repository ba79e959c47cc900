// AdamW: decoupled decay, moments in f32 (f64). Formula and source: kernels/cpu/optimizer.h.
#include "kernels/cpu/optimizer.h"
#include "kernels/ref/optimizer_ref.h"
#include "update/rule.h"

namespace tern {

void adamw_update(const UpdateShard& s) {
  const AdamwStep step{.learning_rate = s.learning_rate,
                       .beta1 = s.config.option("beta1"),
                       .beta2 = s.config.option("beta2"),
                       .epsilon = s.config.option("epsilon"),
                       .weight_decay = s.decays ? s.config.option("weight-decay") : 0.0,
                       .step = s.step,
                       .gradient_scale = s.norm.coefficient};
  const Tensor &m = s.slots[0], &v = s.slots[1];
  if (s.master.dtype() == DType::f64) {
    adamw_step_ref(step, s.gradient.span<double>(), s.master.span<double>(), m.span<double>(), v.span<double>());
    return s.gradient.fill_zero();
  }
  adamw_step_and_clear(step, s.gradient.span<float>(), s.master.span<float>(), m.span<float>(), v.span<float>(),
                       span_or_empty<bf16>(s.rounded));
}

}  // namespace tern
