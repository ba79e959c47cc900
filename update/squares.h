#pragma once
// The sum of squares of a tensor, for norms.

#include "tensor/tensor.h"

namespace tern {

/// Σ x² in f64, of f32 or f64 elements. Order  f32: that of kernels/cpu/vector.h; f64: one chain. Callers cut long tensors into blocks.
double squares_of(const Tensor&);

}  // namespace tern
