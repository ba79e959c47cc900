#pragma once
// Checks the output files of a verb before it starts to work.

#include <string>
#include <string_view>

#include "base/options.h"

namespace tern {

/// Refuses an output (--output, --emit-output, --html, --picture, --trace, --report) that is also an input: another option's
/// path, a positional, the recipe, or a file of the model's directory, under this name or another. It also refuses two
/// outputs to one file, and a picture with the suffix of another format. Errors: usage, naming both.
void refuse_overwrites(const Options&);
/// Checks, before anything is computed, whether `option`'s file can be there; an empty path passes. Errors: usage: `path` is a folder, or its
/// parent does not exist.
void check_writable(const std::string& path, std::string_view option);
/// Does so for each output file and tries to create it, which leaves nothing behind. Errors: those of check_writable and of creating a file.
void require_writable(const Options&);

}  // namespace tern
