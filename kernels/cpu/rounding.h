#pragma once
// Whole numbers, rounded up. With internal linkage: *_isa.cpp files include it too (README.md, one hazard).

#include <cstdint>

namespace tern {

static constexpr int64_t ceil_div(int64_t count, int64_t unit) { return (count + unit - 1) / unit; }
static constexpr int64_t round_up(int64_t count, int64_t unit) { return ceil_div(count, unit) * unit; }

}  // namespace tern
