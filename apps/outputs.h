#pragma once
// What a verb writes, checked before it works.

#include "base/options.h"

namespace tern {

/// Every file that the options name to be written (--output, --emit-output, --html, --picture, --trace) against every
/// file that they name to be read: the other paths, the positionals, the recipe, and of a model's directory the model's
/// files; under whatever names. And against each other.
/// A picture must not bear the name of another format.
/// Errors: usage, naming both.
void refuse_overwrites(const Options&);

/// Errors: what creating the file says, where it could not be written; usage for a directory. Leaves nothing behind.
void require_writable(const Options&);

}  // namespace tern
