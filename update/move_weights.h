#pragma once
// Moves weights along a direction, for rules that compute one. f32 uses the kernel, f64 the reference implementation.

#include <span>

#include "kernels/cpu/optimizer.h"
#include "kernels/ref/optimizer_ref.h"
#include "update/rule.h"

namespace tern {

/// w -= decay·w + rate·u for the masters, and for weights that are apart from them. In f32 u becomes zero; in f64 it stays.
inline void move_weights(double decay, double rate, std::span<float> u, const UpdateShard& s) {
  direction_step(decay, rate, u, s.master.span<float>(), span_or_empty<bf16>(s.compute));
}
inline void move_weights(double decay, double rate, std::span<double> u, const UpdateShard& s) {
  direction_step_ref(decay, rate, u, s.master.span<double>());
}

}  // namespace tern
