#pragma once
// Reads the options of `tern plan` that say which choices are searched.

#include <vector>

#include "base/options.h"
#include "planner/outer/plan_question.h"

namespace tern {

/// The choices that the options allow. Errors: usage: an unknown name in a list; --fix gives what another option excludes.
SearchSpace space_of(const Options&);
/// The choices that all options except --fix allow.
SearchSpace space_without_pins(const Options&);
/// For each given option that restricts the choices (but --emit and --offload), the space without it; if several are given, as the
/// last entry the space without all of them.
std::vector<WiderSpace> wider_spaces(const Options&);

}  // namespace tern
