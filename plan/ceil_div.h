#pragma once

#include <cstdint>

namespace tern {

/// a / b rounded up. a ≥ 0, b > 0.
constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace tern
