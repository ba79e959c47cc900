#pragma once
// The sum of a tensor's squares, as norms are made of it.

#include "tensor/tensor.h"

namespace tern {

/// Σ x² in f64 of f32 or f64 numbers. Order  f32: kernels/cpu/vector.h's; f64: one chain. Callers cut long tensors into blocks.
double squares_of(const Tensor&);

}  // namespace tern
