#pragma once
// The plain twin (reference implementation) of kernels/cpu/rope.h, in doubles.

#include <cstdint>
#include <span>

#include "kernels/cpu/rope.h"

namespace tern {

/// Shapes as in kernels/cpu/rope.h; the tables are doubles too.
void rope_ref(const RopeShape&, std::span<const int32_t> positions, std::span<const double> cos,
              std::span<const double> sin, bool inverse, double* x);

}  // namespace tern
