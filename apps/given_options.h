#pragma once
// Options that have an effect beside a given one, as a list: any other option that was given is refused.

#include <span>
#include <string_view>

#include "base/options.h"

namespace tern {

/// Errors: usage: an option that was given on the command line or in a recipe and is none of `allowed`. `why`: what
/// stands behind "VERB: --NAME ", such as "is of training and says nothing about --inference; leave it out". Options
/// from the environment are not refused, as they are set for many commands.
void refuse_given_but(const Options&, std::span<const std::string_view> allowed, std::string_view why);

}  // namespace tern
