#pragma once
// The norm kernels of one instruction set: serial, on raw pointers. norm.cpp checks shapes and splits rows over
// threads.

#include <cstdint>

#include "base/dtype.h"
#include "kernels/cpu/tables.h"

namespace tern {

template <class T>
struct NormKernels {
  void (*rms)(const T* x, const T* w, float offset, float eps, int64_t rows, int64_t width, T* y, float* rstd);
  void (*rms_input)(const T* dy, const T* x, const T* w, float offset, const float* rstd, int64_t rows, int64_t width,
                    T* dx, bool add);
  // sums over rows of `width`, for columns [begin, end) only; layer_weight likewise
  void (*rms_weight)(const T* dy, const T* x, const float* rstd, int64_t rows, int64_t width, int64_t begin,
                     int64_t end, float* dw);
  void (*layer)(const T* x, const T* w, const T* b, float eps, int64_t rows, int64_t width, T* y, float* mean,
                float* rstd);
  void (*layer_input)(const T* dy, const T* x, const T* w, const float* mean, const float* rstd, int64_t rows,
                      int64_t width, T* dx, bool add);
  void (*layer_weight)(const T* dy, const T* x, const float* mean, const float* rstd, int64_t rows, int64_t width,
                       int64_t begin, int64_t end, float* dw, float* db);
};
struct NormTable {
  NormKernels<float> f32;
  NormKernels<bf16> bfloat16;
};
TERN_DECLARE_TABLES(NormTable, norm_table)

}  // namespace tern
