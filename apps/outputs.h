#pragma once
// Checks the output files of a verb before it starts to work.

#include "base/options.h"

namespace tern {

/// Refuses an output (--output, --emit-output, --html, --picture, --trace, --report) that is also an input: another option's
/// path, a positional, the recipe, or a file of the model's directory, under this name or another. It also refuses two
/// outputs to one file, and a picture with the suffix of another format. Errors: usage, naming both.
void refuse_overwrites(const Options&);
/// Tries to create each output file, and leaves nothing behind. Errors: usage: the output is a directory; those of creating a file.
void require_writable(const Options&);

}  // namespace tern
