#pragma once
// Plain twins (reference implementations) of kernels/cpu/adafactor.h, with every number a double. They leave the gradient as it is.

#include <span>

#include "kernels/cpu/adafactor.h"

namespace tern {

void adafactor_matrix_step_ref(const AdafactorStep&, int64_t rows, int64_t columns, std::span<const double> gradient,
                               std::span<double> weight, std::span<double> row, std::span<double> column);
void adafactor_vector_step_ref(const AdafactorStep&, std::span<const double> gradient, std::span<double> weight,
                               std::span<double> second);

}  // namespace tern
