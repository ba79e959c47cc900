#pragma once
// How refusals name an option, so that a user who did not type it can find where it was set.

#include <string>
#include <string_view>

namespace tern {

class Options;

/// "--momentum" of a command line; "--momentum (of TERN_MOMENTUM)", "--momentum (of run.toml:3)" of the environment and of a recipe.
std::string as_given(const Options&, std::string_view name);

}  // namespace tern
