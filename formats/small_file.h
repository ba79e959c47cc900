#pragma once
// Small files of text, read whole.

#include <cstddef>
#include <string>

namespace tern {

/// The text of a file. Errors: bad_file: it cannot be read, or has more than `max_bytes` (known before anything is
/// read).
std::string read_text_file(const std::string& path, size_t max_bytes);

}  // namespace tern
