#pragma once
// Where bytes lie.

#include <array>
#include <cstdint>

namespace tern {

enum class Tier : uint8_t { device, host, disk };
inline constexpr int kTiers = 3;
using TierBytes = std::array<int64_t, kTiers>;

}  // namespace tern
