#pragma once
// Refuses options that have no effect beside others.

#include <span>
#include <string_view>

#include "base/options.h"

namespace tern {

/// Whether somebody asked for the option's value: it was given, and not merely as a default in a recipe, where a run writes them all.
bool is_asked_for(const Options&, std::string_view name);

/// Refuses every option that was given on the command line or in a recipe and is not one of `allowed`. Options from the
/// environment are not refused, as they are set for many commands. `why` follows "VERB: --NAME " in the message, such as "is
/// of training and says nothing about --inference; leave it out". Errors: usage.
void refuse_given_but(const Options&, std::span<const std::string_view> allowed, std::string_view why);

}  // namespace tern
