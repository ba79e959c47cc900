// Adafactor: second moments of matrices and tables as rows and columns, steps relative to the weights. Formula and source:
// kernels/cpu/adafactor.h.
#include "kernels/cpu/adafactor.h"
#include "kernels/ref/adafactor_ref.h"
#include "update/rule.h"

namespace tern {
namespace {

void step(const UpdateShard& s) {
  const AdafactorStep scalars{.learning_rate = s.learning_rate,
                              .weight_decay = s.decay(),
                              .step = s.step,
                              .gradient_scale = s.norm.coefficient};
  const Tensor &row = s.slots[0], &column = s.slots[1], &second = s.slots[2];
  const auto [rows, columns] = std::pair(s.form.rows, s.form.columns);
  const bool vector = s.form.kind == ParameterKind::vector;
  if (s.master.dtype() == DType::f64) {
    const std::span<double> g = s.gradient.span<double>(), w = s.master.span<double>();
    if (vector)
      adafactor_vector_step_ref(scalars, g, w, second.span<double>());
    else
      adafactor_matrix_step_ref(scalars, rows, columns, g, w, row.span<double>(), column.span<double>());
    return s.gradient.fill_zero();
  }
  const std::span<float> g = s.gradient.span<float>(), w = s.master.span<float>();
  const std::span<bf16> compute = span_or_empty<bf16>(s.compute);
  if (vector)
    adafactor_vector_step(scalars, g, w, second.span<float>(), compute);
  else
    adafactor_matrix_step(scalars, rows, columns, g, w, row.span<float>(), column.span<float>(),
                          s.temporary.span<float>(), compute);
}

}  // namespace

const UpdateFunctions adafactor_rule{.step = step};

}  // namespace tern
