#pragma once
// The type of what must not be rounded as weights and activations are.

#include "base/dtype.h"

namespace tern {

/// Of gradients, master weights, states of update rules, statistics of rows and logits beside weights of this type: f64 beside
/// f64, f32 beside all others.
constexpr DType wide_type(DType weights) { return weights == DType::f64 ? DType::f64 : DType::f32; }

}  // namespace tern
