#pragma once
// Command lines as a shell reads them.

#include <string>

namespace tern {

/// `text`, quoted where needed so that a shell reads it as one word.
std::string shell_quoted(const std::string& text);

}  // namespace tern
