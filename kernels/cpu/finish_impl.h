#pragma once
// The last step of a product's tile: adds the bias and writes the result. Only for *_isa.cpp files.

#include "kernels/cpu/lanes_impl.h"

namespace tern::TERN_ISA_NAMESPACE {
namespace {

/// y (rows, columns; row stride `stride`) = sums (rows, columns; row stride `width`) + bias; if `add`, y + (sums + bias). Computed in f32,
/// rounded once. Each row of `sums` must be readable to the end of its last vector.
template <class T, class Out>
void finish(const float* sums, int64_t width, int64_t rows, int64_t columns, const T* bias, bool add, Out* y,
            int64_t stride) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; c += kLanes) {
      const int64_t n = columns - c < kLanes ? columns - c : kLanes;
      Vec value = load(sums + r * width + c);
      if (bias) value = value + load(bias + c, n);
      if (add) value = load(y + r * stride + c, n) + value;
      store(y + r * stride + c, value, n);
    }
}

}  // namespace
}  // namespace tern::TERN_ISA_NAMESPACE
