#pragma once
// The element-wise and gathering kernels of one instruction set; vector.cpp splits elements, rows or columns over
// threads.

#include <cstdint>

#include "base/dtype.h"
#include "kernels/cpu/tables.h"

namespace tern {

template <class T>
struct VectorKernels {
  void (*add)(int64_t count, const T* x, T* y);
  void (*add_bias)(int64_t rows, int64_t width, const T* bias, T* y);
  void (*add_scaled)(int64_t rows, int64_t width, float factor, const T* x, T* y, int64_t stride);  // stride: of y
  // sums over rows of `width`, for columns [begin, end) only; scatter_rows_add likewise
  void (*bias_backward)(int64_t rows, int64_t width, int64_t begin, int64_t end, const T* dy, float* db);
  void (*gather_rows_add)(int64_t rows, int64_t width, const T* table, const int32_t* ids, T* y);
  void (*scatter_rows_add)(int64_t rows, int64_t width, int64_t begin, int64_t end, const T* dy, const int32_t* ids,
                           float* dtable);
};
struct VectorTable {
  VectorKernels<float> f32;
  VectorKernels<bf16> bfloat16;
  void (*bf16_to_f32)(int64_t count, const bf16* x, float* y);
  void (*f32_to_bf16)(int64_t count, const float* x, bf16* y);
  void (*f16_to_f32)(int64_t count, const f16* x, float* y);
  void (*f32_to_f16)(int64_t count, const float* x, f16* y);
  void (*f64_to_f32)(int64_t count, const double* x, float* y);
  void (*f32_to_f64)(int64_t count, const float* x, double* y);
  double (*sum_of_squares)(int64_t count, const float* x);  // one block
  bool (*all_finite)(int64_t count, const float* x);
};
TERN_DECLARE_TABLES(VectorTable, vector_table)

}  // namespace tern
