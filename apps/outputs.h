#pragma once
// What a verb writes, checked before it works.

#include "base/options.h"

namespace tern {

/// Refuses files to be written (--output, --emit-output, --html, --picture, --trace) that are also files to be read: the
/// other paths, the positionals, the recipe, and the files of a model's directory. The same file under another name counts
/// too, and so do two outputs to one file.
/// A picture must not have the suffix of another format.
/// Errors: usage, naming both.
void refuse_overwrites(const Options&);

/// Tries to create each output file. Errors: that of creating it, where it cannot be written; usage for a directory. Leaves
/// nothing behind.
void require_writable(const Options&);

}  // namespace tern
