#pragma once
// Plain twins (reference implementations) of kernels/cpu/equalize.h, in doubles.

#include <cstdint>
#include <span>

namespace tern {

void equalize_uneven_side_ref(std::span<double> x, int64_t rows, int64_t columns);
void equalize_rows_then_columns_ref(std::span<double> x, int64_t rows, int64_t columns);

}  // namespace tern
