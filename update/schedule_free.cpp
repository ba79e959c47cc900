// Schedule-free AdamW: the masters are the average x, which is saved and evaluated; gradients are taken at y, between x and the
// point z that the steps move. Formula and source: kernels/cpu/optimizer.h. The weight of a step in the average is r²/Σ r², r being
// the highest rate so far, so a warm-up counts for less.
#include "kernels/cpu/optimizer.h"
#include "kernels/ref/optimizer_ref.h"
#include "update/rule.h"

namespace tern {
namespace {

void step(const UpdateShard& s) {
  const ScheduleFreeStep scalars{.learning_rate = s.learning_rate,
                                 .beta1 = s.config.option("beta1"),
                                 .beta2 = s.config.option("beta2"),
                                 .epsilon = s.config.option("epsilon"),
                                 .weight_decay = s.decay(),
                                 .step = s.step,
                                 .gradient_scale = s.norm.coefficient,
                                 .average_weight = s.average_weight};
  const Tensor &d = s.slots[0], &v = s.slots[1];
  if (s.master.dtype() == DType::f64) {
    schedule_free_step_ref(scalars, s.gradient.span<double>(), s.master.span<double>(), d.span<double>(),
                           v.span<double>(), s.compute.span<double>());
    return s.gradient.fill_zero();
  }
  const auto run = [&](auto y) {
    schedule_free_step(scalars, s.gradient.span<float>(), s.master.span<float>(), d.span<float>(), v.span<float>(), y);
  };
  s.compute.dtype() == DType::bf16 ? run(s.compute.span<bf16>()) : run(s.compute.span<float>());
}

void place(const UpdateShard& s) {
  const double beta1 = s.config.option("beta1");
  const Tensor& d = s.slots[0];
  if (s.master.dtype() == DType::f64)
    return schedule_free_place_ref(beta1, s.master.span<double>(), d.span<double>(), s.compute.span<double>());
  const auto run = [&](auto y) { schedule_free_place(beta1, s.master.span<float>(), d.span<float>(), y); };
  s.compute.dtype() == DType::bf16 ? run(s.compute.span<bf16>()) : run(s.compute.span<float>());
}

}  // namespace

const UpdateFunctions schedule_free_rule{.step = step, .place = place};

}  // namespace tern
