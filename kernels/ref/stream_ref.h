#pragma once
// The plain twin (reference implementation) of kernels/cpu/stream.h.

#include <span>

namespace tern {

/// Σ x, added from the first number to the last.
double stream_sum_ref(std::span<const double> x);

}  // namespace tern
