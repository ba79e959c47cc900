#pragma once
// Every value of a layer strategy's parts, for reading their names.

#include <array>

#include "plan/strategy.h"

namespace tern {

inline constexpr std::array kRecomputes{Recompute::none, Recompute::attention, Recompute::full};
inline constexpr std::array kTierValues{Tier::device, Tier::host, Tier::disk};

}  // namespace tern
