#pragma once
// Small files of text, whole.

#include <cstddef>
#include <string>

namespace tern {

/// A whole small text file; more than `max_bytes` is refused before anything is read. Errors: bad_file.
std::string read_text_file(const std::string& path, size_t max_bytes);

}  // namespace tern
