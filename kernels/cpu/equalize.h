#pragma once
// Rows or columns of a matrix (rows, columns) brought to a root mean square of 1. Twin: kernels/ref/equalize_ref.h.

#include <cstdint>
#include <span>

namespace tern {

/// Scales to rms 1 every row or every column: the side whose rms have the larger coefficient of variation (standard
/// deviation over mean; rows if equal). `temporary` holds rows + columns. A row or column of zeros stays zero.
/// Source: Shi, Wang & Li 2026, MeqMuon.
void equalize_uneven_side(std::span<float> x, int64_t rows, int64_t columns, std::span<float> temporary);
/// Every row to 1, then every column.
void equalize_rows_then_columns(std::span<float> x, int64_t rows, int64_t columns, std::span<float> temporary);

}  // namespace tern
