#pragma once
// The rope kernels of one instruction set; rope.cpp splits rows over threads.

#include <cstdint>

#include "base/dtype.h"
#include "kernels/cpu/rope.h"
#include "kernels/cpu/tables.h"

namespace tern {

template <class T>
using RopeKernel = void (*)(const RopeShape&, const int32_t* positions, const float* cos, const float* sin,
                            bool inverse, T* x);
struct RopeKernelTable {
  RopeKernel<float> f32;
  RopeKernel<bf16> bfloat16;
};
TERN_DECLARE_TABLES(RopeKernelTable, rope_kernel_table)

}  // namespace tern
