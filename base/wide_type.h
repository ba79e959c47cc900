#pragma once
// The type of numbers that must not be rounded to the type of weights and activations.

#include "base/dtype.h"

namespace tern {

/// The type of gradients, master weights, states of update rules, statistics of rows and logits in a model whose weights have the
/// given type: f64 for f64 weights, f32 for all others.
constexpr DType wide_type(DType weights) { return weights == DType::f64 ? DType::f64 : DType::f32; }

}  // namespace tern
