// Muon: matrices step along the orthogonal factor of their momentum, b = β b + (1-β) g, o = NS5((1-β) g + β b),
// w -= lr·wd·w + lr·0.2·sqrt(max(rows, columns))·o. Tables (embedding, head) and vectors follow AdamW at the same rate, which the factor
// 0.2·sqrt(max) makes fit: the step's root mean square is then AdamW's usual 0.2.
// Source: Jordan et al. 2024 (public code); the factor: Liu et al. 2025, arXiv:2502.16982, eq. 4 (recalled). torch.optim.Muon with
// adjust_lr_fn="match_rms_adamw" is the same in bf16; here products are f32.
#include <cmath>

#include "kernels/cpu/newton_schulz.h"
#include "kernels/cpu/optimizer.h"
#include "kernels/ref/newton_schulz_ref.h"
#include "kernels/ref/optimizer_ref.h"
#include "update/move_weights.h"
#include "update/rule.h"

namespace tern {
namespace {

void step(const UpdateShard& s) {
  if (s.form.kind != ParameterKind::matrix) return adamw_step_of(s, s.slots[1], s.slots[2]);
  const double keep = s.config.option("momentum"), take = (1 - keep) * s.norm.coefficient;
  const double longest = static_cast<double>(std::max(s.form.rows, s.form.columns));
  const double decay = s.learning_rate * s.decay(), rate = s.learning_rate * 0.2 * std::sqrt(longest);
  if (s.master.dtype() == DType::f64) {
    const std::span<double> direction = s.gradient.span<double>();
    look_ahead_ref(keep, take, direction, s.slots[0].span<double>());
    newton_schulz_ref(direction, s.form.rows, s.form.columns);
    move_weights(decay, rate, direction, s);
    return s.gradient.fill_zero();
  }
  const std::span<float> direction = s.gradient.span<float>();
  look_ahead(keep, take, direction, s.slots[0].span<float>());
  newton_schulz(direction, s.form.rows, s.form.columns, s.temporary.span<float>());
  move_weights(decay, rate, direction, s);
}

}  // namespace

const UpdateFunctions muon_rule{.step = step, .thread_bytes = orthogonal_thread_bytes};

}  // namespace tern
