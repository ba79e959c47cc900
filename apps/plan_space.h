#pragma once
// The options of `tern plan` that say which choices are looked at.

#include <vector>

#include "base/options.h"
#include "planner/outer/plan_question.h"

namespace tern {

/// Errors: usage, for an unknown name in a list, and for what --fix gives and another option excludes.
SearchSpace space_of(const Options&);
/// The same without --fix.
SearchSpace space_without_pins(const Options&);
/// Without each of the restrictions that were given, then without all.
std::vector<WiderSpace> wider_spaces(const Options&);

}  // namespace tern
