#pragma once
// Rows and columns of a matrix (rows, columns): their squares, and their scale. Twins: the loops of matrix_scale_test.cpp.

#include <cstdint>
#include <span>

namespace tern {

/// out (rows): Σ x² over each row, in doubles, ascending, rounded once. T is float or double.
template <class T>
void row_squares(std::span<const T> x, int64_t rows, int64_t columns, std::span<T> out);
/// out (columns): Σ x² over each column, in doubles, rows ascending, rounded once.
template <class T>
void column_squares(std::span<const T> x, int64_t rows, int64_t columns, std::span<T> out);
/// x(r, c) *= scale(r), scale (rows).
template <class T>
void scale_rows(std::span<T> x, int64_t rows, int64_t columns, std::span<const T> scale);
/// x(r, c) *= scale(c), scale (columns).
template <class T>
void scale_columns(std::span<T> x, int64_t rows, int64_t columns, std::span<const T> scale);

}  // namespace tern
