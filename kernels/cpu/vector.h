#pragma once
// Element-wise and gathering kernels, T float or bf16. Twin: kernels/ref/vector_ref.h.

#include <cstdint>
#include <span>

#include "base/dtype.h"

namespace tern {

/// y = x, rounded to the nearest of the target type. Instantiated for float<->bf16, float<->f16, float<->double.
template <class From, class To>
void convert(std::span<const From> x, std::span<To> y);
/// y += x.
template <class T>
void add(std::span<const T> x, std::span<T> y);
/// y += x, then x = 0, in one pass over memory.
void add_and_clear(std::span<float> x, std::span<float> y);
/// Each row of y (rows, width) += bias (width).
template <class T>
void add_bias(std::span<const T> bias, std::span<T> y);
/// Columns [column, column + width) of each row of y (rows, stride) += factor·x (rows, width). The product is rounded to f32 before it
/// is added, under every instruction set.
template <class T>
void add_scaled_columns(float factor, std::span<const T> x, int64_t width, std::span<T> y, int64_t stride,
                        int64_t column);
/// db (width) += Σ_rows dy, rows ascending.
template <class T>
void bias_backward(std::span<const T> dy, std::span<float> db);

/// y row r = table row ids[r]. Shapes: table (num, width), y (ids.size(), width). Errors: none; the reader of the
/// ids has checked them.
template <class T>
void gather_rows(std::span<const T> table, int64_t width, std::span<const int32_t> ids, std::span<T> y);
/// y row r += table row ids[r].
template <class T>
void gather_rows_add(std::span<const T> table, int64_t width, std::span<const int32_t> ids, std::span<T> y);
/// dtable row ids[r] += dy row r, r ascending for each table row, whatever the number of threads.
template <class T>
void scatter_rows_add(std::span<const T> dy, int64_t width, std::span<const int32_t> ids, std::span<float> dtable);

/// Σ x² in doubles, in fixed blocks, so that the sum does not depend on the number of threads.
double sum_of_squares(std::span<const float> x);
/// True if every element is finite.
bool all_finite(std::span<const float> x);

}  // namespace tern
