#pragma once
// Shared by the preparation of a pipeline's order and its runs.

#include <cstdint>

namespace tern {

constexpr int32_t kAtOnce = 0, kNobody = 1;  // arrivals: one from the start, one nobody awaits

}  // namespace tern
