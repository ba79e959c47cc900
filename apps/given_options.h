#pragma once
// Which options of a verb say something beside others, from its option table: what is not named is refused.

#include <span>
#include <string_view>

#include "base/options.h"

namespace tern {

/// Errors: usage: an option that was given on the command line or in a recipe and is none of `allowed`. `why`: what
/// stands behind "VERB: --NAME ", such as "is of training and says nothing about --inference; leave it out". The
/// environment speaks to many commands, and is not refused.
void refuse_given_but(const Options&, std::span<const std::string_view> allowed, std::string_view why);

}  // namespace tern
