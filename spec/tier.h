#pragma once
// Where bytes lie: in a device's memory, in the host's, or on disk.

#include <array>
#include <cstdint>
#include <string_view>

namespace tern {

enum class Tier : uint8_t { device, host, disk };
inline constexpr int kTiers = 3;
inline constexpr std::array kTierValues{Tier::device, Tier::host, Tier::disk};
using TierBytes = std::array<int64_t, kTiers>;

constexpr std::string_view name_of(Tier t) { return t == Tier::device ? "device" : t == Tier::host ? "host" : "disk"; }

}  // namespace tern
