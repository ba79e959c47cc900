#pragma once
// Bytes that are no UTF-8, in texts too long for a copy: one function counts the bytes of the repaired text, another appends
// it part by part. What is ill-formed: base/utf8.h.

#include <cstddef>
#include <string>
#include <string_view>

namespace tern {

/// What becomes of an ill-formed sequence: U+FFFD (as make_valid_utf8 has it), or nothing.
enum class Utf8Repair { mark, leave_out };

/// The bytes that append_repaired_utf8 appends.
size_t repaired_utf8_size(std::string_view text, Utf8Repair);
/// Appends `text`, its ill-formed sequences repaired. The results of parts that end at utf8_boundary, joined, are
/// the result of the whole.
void append_repaired_utf8(std::string& out, std::string_view text, Utf8Repair);
/// The last place up to `near` that is not within a character or an ill-formed sequence. `near` must be at least 4.
size_t utf8_boundary(std::string_view text, size_t near);

}  // namespace tern
