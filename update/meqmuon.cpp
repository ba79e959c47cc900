// MeqMuon: one buffer for every parameter, b = μ b + g with a look ahead, g + μ b, in b's place below. Matrices: its orthogonal
// factor, of which the more uneven side, rows or columns, is scaled to a root mean square of 1. Tables: rows, then columns scaled to 1.
// Vectors: the whole scaled to 1. Then w -= lr·wd·w + lr·0.2·direction.
// Source: Shi, Wang & Li 2026; the look ahead for tables and vectors too is ours, as is what stands for zeros (they stay).
#include <cmath>

#include "kernels/cpu/equalize.h"
#include "kernels/cpu/newton_schulz.h"
#include "kernels/cpu/optimizer.h"
#include "kernels/cpu/vector.h"
#include "kernels/ref/equalize_ref.h"
#include "kernels/ref/newton_schulz_ref.h"
#include "kernels/ref/optimizer_ref.h"
#include "update/move_weights.h"
#include "update/rule.h"

namespace tern {
namespace {

constexpr double kReach = 0.2;  // root mean square of a step, in learning rates

double inverse_root_mean_square(double squares, int64_t count) {
  return squares > 0 ? std::sqrt(static_cast<double>(count) / squares) : 0;
}

void step_in_doubles(const UpdateShard& s, double keep, double decay, double rate) {
  const std::span<double> x = s.gradient.span<double>();
  look_ahead_ref(keep, s.norm.coefficient, x, s.slots[0].span<double>());
  switch (s.form.kind) {
    case ParameterKind::matrix:
      newton_schulz_ref(x, s.form.rows, s.form.columns);
      equalize_uneven_side_ref(x, s.form.rows, s.form.columns);
      break;
    case ParameterKind::table:
      equalize_rows_then_columns_ref(x, s.form.rows, s.form.columns);
      break;
    case ParameterKind::vector:
      rate *= inverse_root_mean_square(decayed_squares_ref(1, x, 0, x), std::ssize(x));
  }
  move_weights(decay, rate, x, s);
  s.gradient.fill_zero();
}

void step(const UpdateShard& s) {
  const double keep = s.config.option("momentum"), decay = s.learning_rate * s.decay();
  double rate = s.learning_rate * kReach;
  if (s.master.dtype() == DType::f64) return step_in_doubles(s, keep, decay, rate);
  const std::span<float> x = s.gradient.span<float>(), temporary = span_or_empty<float>(s.temporary);
  look_ahead(keep, s.norm.coefficient, x, s.slots[0].span<float>());
  const int64_t rows = s.form.rows, columns = s.form.columns;
  switch (s.form.kind) {
    case ParameterKind::matrix:
      newton_schulz(x, rows, columns, temporary);
      equalize_uneven_side(x, rows, columns, temporary.first(static_cast<size_t>(rows + columns)));
      break;
    case ParameterKind::table:
      equalize_rows_then_columns(x, rows, columns, temporary);
      break;
    case ParameterKind::vector:
      rate *= inverse_root_mean_square(sum_of_squares(std::span<const float>(x)), std::ssize(x));
  }
  move_weights(decay, rate, x, s);
}

}  // namespace

const UpdateFunctions meqmuon_rule{.step = step, .thread_bytes = orthogonal_thread_bytes};

}  // namespace tern
