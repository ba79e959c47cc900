#pragma once
// The presets that are given as a published config.json.

#include <string_view>
#include <vector>

namespace tern {

struct PresetConfig {
  std::string_view name, json;
};
const std::vector<PresetConfig>& preset_configs();

}  // namespace tern
