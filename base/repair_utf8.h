#pragma once
// Repairs ill-formed UTF-8 (base/utf8.h) in texts that are too long to copy: one function counts the bytes of the repaired
// text, another appends it part by part.

#include <cstddef>
#include <string>
#include <string_view>

namespace tern {

/// What replaces an ill-formed sequence: U+FFFD, as in make_valid_utf8, or nothing.
enum class Utf8Repair { mark, leave_out };

/// The number of bytes that append_repaired_utf8 appends.
size_t repaired_utf8_size(std::string_view text, Utf8Repair);
/// Appends `text`, its ill-formed sequences repaired. A text may be repaired in parts that are cut at utf8_boundary: their
/// results, joined, equal the result for the whole text.
void append_repaired_utf8(std::string& out, std::string_view text, Utf8Repair);
/// The last place up to `near` where a cut divides neither a character nor an ill-formed sequence. `near` must be at least 4.
size_t utf8_boundary(std::string_view text, size_t near);

}  // namespace tern
