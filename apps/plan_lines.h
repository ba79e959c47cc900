#pragma once
// Prints the output of `tern plan`, as wide as the terminal.

#include <string_view>

namespace tern {

/// Prints to standard output. For a terminal, lines that are too long are broken (planner/words/columns.h); a file or a pipe gets them as they are.
/// Errors: those of print_out.
void print_lines(std::string_view text);

}  // namespace tern
