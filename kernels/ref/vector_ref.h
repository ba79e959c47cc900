#pragma once
// Plain twins (reference implementations) of kernels/cpu/vector.h, in doubles.

#include <cstdint>
#include <span>

namespace tern {

/// Shapes as in kernels/cpu/vector.h.
void add_ref(std::span<const double> x, std::span<double> y);
void add_bias_ref(std::span<const double> bias, std::span<double> y);
void add_scaled_columns_ref(double factor, std::span<const double> x, int64_t width, std::span<double> y,
                            int64_t stride, int64_t column);
void bias_backward_ref(std::span<const double> dy, std::span<double> db);
void gather_rows_ref(std::span<const double> table, int64_t width, std::span<const int32_t> ids, std::span<double> y);
void gather_rows_add_ref(std::span<const double> table, int64_t width, std::span<const int32_t> ids,
                         std::span<double> y);
void scatter_rows_add_ref(std::span<const double> dy, int64_t width, std::span<const int32_t> ids,
                          std::span<double> dtable);
double sum_of_squares_ref(std::span<const double> x);
bool all_finite_ref(std::span<const double> x);

}  // namespace tern
