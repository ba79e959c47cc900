#pragma once
// Command lines as a shell reads them.

#include <string>

namespace tern {

/// As one word of a shell's command line.
std::string shell_quoted(const std::string& text);

}  // namespace tern
