#pragma once
// What `tern plan` says, as wide as the terminal.

#include <string_view>

namespace tern {

/// Standard output. Lines are broken for a terminal of fewer columns (planner/words/columns.h); a file or a pipe gets them
/// as they are. Errors: as print_out.
void print_lines(std::string_view text);

}  // namespace tern
