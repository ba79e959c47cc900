// AdamW with the moments of matrices in 8 bits; tables and vectors keep f32 moments. Formula and source: kernels/cpu/adamw8.h,
// kernels/cpu/optimizer.h.
#include "kernels/cpu/adamw8.h"
#include "kernels/ref/adamw8_ref.h"
#include "update/rule.h"

namespace tern {
namespace {

void step(const UpdateShard& s) {
  if (s.form.kind != ParameterKind::matrix) return adamw_step_of(s, s.slots[4], s.slots[5]);
  const AdamwStep scalars = adamw_step_numbers(s);
  const std::span<uint8_t> m = s.slots[0].span<uint8_t>(), v = s.slots[1].span<uint8_t>();
  const Tensor &m_scale = s.slots[2], &v_scale = s.slots[3];
  if (s.master.dtype() == DType::f64) {
    adamw8_step_ref(scalars, s.gradient.span<double>(), s.master.span<double>(),
                    {m, v, m_scale.span<double>(), v_scale.span<double>()});
    return s.gradient.fill_zero();
  }
  adamw8_step(scalars, s.gradient.span<float>(), s.master.span<float>(),
              {m, v, m_scale.span<float>(), v_scale.span<float>()}, span_or_empty<bf16>(s.compute));
}

}  // namespace

const UpdateFunctions adamw8bit_rule{.step = step};

}  // namespace tern
