#pragma once
// Scales rows or columns of a matrix (rows, columns) to a root mean square (rms) of 1. Twin: kernels/ref/equalize_ref.h.

#include <cstdint>
#include <span>

namespace tern {

/// Scales every row or every column to rms 1: the side whose rms values have the larger coefficient of variation (standard
/// deviation over mean; rows if equal). `temporary` holds rows + columns. A row or column of zeros stays zero.
/// Source: Shi, Wang & Li 2026, MeqMuon.
void equalize_uneven_side(std::span<float> x, int64_t rows, int64_t columns, std::span<float> temporary);
/// Scales every row to rms 1, then every column.
void equalize_rows_then_columns(std::span<float> x, int64_t rows, int64_t columns, std::span<float> temporary);

}  // namespace tern
