// AdamW: decoupled decay, moments in f32 (f64). Formula and source: kernels/cpu/optimizer.h.
#include "kernels/cpu/optimizer.h"
#include "kernels/ref/optimizer_ref.h"
#include "update/rule.h"

namespace tern {

AdamwStep adamw_step_numbers(const UpdateShard& s) {
  return {.learning_rate = s.learning_rate,
          .beta1 = s.config.option("beta1"),
          .beta2 = s.config.option("beta2"),
          .epsilon = s.config.option("epsilon"),
          .weight_decay = s.decay(),
          .step = s.step,
          .gradient_scale = s.norm.coefficient};
}

void adamw_step_of(const UpdateShard& s, const Tensor& m, const Tensor& v) {
  const AdamwStep scalars = adamw_step_numbers(s);
  if (s.master.dtype() == DType::f64) {
    adamw_step_ref(scalars, s.gradient.span<double>(), s.master.span<double>(), m.span<double>(), v.span<double>());
    return s.gradient.fill_zero();
  }
  adamw_step_and_clear(scalars, s.gradient.span<float>(), s.master.span<float>(), m.span<float>(), v.span<float>(),
                       span_or_empty<bf16>(s.compute));
}

const UpdateFunctions adamw_rule{.step = [](const UpdateShard& s) { adamw_step_of(s, s.slots[0], s.slots[1]); }};

}  // namespace tern
