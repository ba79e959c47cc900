#pragma once
// Which units' saved values are computed again before the backward instead of kept.

#include <array>
#include <cstdint>
#include <string_view>

#include "spec/model_spec.h"

namespace tern {

enum class Recompute : uint8_t { none, attention, full };
inline constexpr std::array kRecomputes{Recompute::none, Recompute::attention, Recompute::full};
std::string_view name_of(Recompute);  // "none", "attention", "full"
/// Whether a unit's saved values are computed again before its backward instead of kept.
bool is_recomputed(const Unit&, Recompute);

}  // namespace tern
