#pragma once
// Well-known models by name, for planning without their files: the sizes their publishers' configurations state.

#include <optional>
#include <string_view>
#include <vector>

#include "spec/model_spec.h"

namespace tern {

/// "llama-2-7b", "mixtral-8x7b", …; case does not matter. Nothing for a name that is none.
std::optional<ModelSpec> preset_model(std::string_view name);
std::vector<std::string_view> preset_names();

}  // namespace tern
