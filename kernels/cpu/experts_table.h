#pragma once
// The loops over a row's elements, for one instruction set; experts.cpp splits rows over threads.

#include <cstdint>

#include "base/dtype.h"
#include "kernels/cpu/tables.h"

namespace tern {

/// Each kernel takes one row of `width` elements. None fuses a multiply-add, so all sets give the same bits.
template <class X>
struct ExpertKernels {
  // y = (y if add) + Σ_k weights[k]·x row rows[k], k ascending; if weights are null, each is 1
  void (*combine)(int64_t width, int64_t top_k, const X* x, const int32_t* rows, const float* weights, bool add, X* y);
  float (*dot)(int64_t width, const X* a, const X* b);
  void (*scale)(int64_t width, float factor, X* x);
};
struct ExpertTable {
  ExpertKernels<float> f32;
  ExpertKernels<bf16> bfloat16;
};
TERN_DECLARE_TABLES(ExpertTable, expert_table)

}  // namespace tern
