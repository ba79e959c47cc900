#pragma once
// Plain twin of kernels/cpu/stream.h.

#include <span>

namespace tern {

/// Σ x, front to back.
double stream_sum_ref(std::span<const double> x);

}  // namespace tern
