#pragma once
// Names of update rules (optimizers), one vocabulary for plans, options, checkpoints and training.

#include <array>
#include <cstdint>
#include <string_view>

namespace tern {

enum class UpdateRule : uint8_t { adamw, sgd };
inline constexpr std::array kUpdateRules{UpdateRule::adamw, UpdateRule::sgd};

constexpr std::string_view name_of(UpdateRule r) { return r == UpdateRule::adamw ? "adamw" : "sgd"; }

}  // namespace tern
