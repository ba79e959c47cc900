#pragma once
// Integers rounded up. The functions have internal linkage, as *_isa.cpp files include them too ("One hazard" in kernels/README.md).

#include <cstdint>

namespace tern {

/// a / b rounded up. a ≥ 0, b > 0.
static constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
/// a rounded up to a multiple of `unit`. a ≥ 0, unit > 0.
static constexpr int64_t round_up(int64_t a, int64_t unit) { return ceil_div(a, unit) * unit; }

}  // namespace tern
