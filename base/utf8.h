#pragma once
// UTF-8: checking, decoding, encoding. Invalid means what Unicode 15 §3.9 (table 3-7) calls ill-formed: overlong forms,
// surrogates and values above U+10FFFF included.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tern {

struct DecodedChar {
  uint32_t code = 0;  // 0xFFFD if !valid
  int num_bytes =
      0;  // consumed, at least 1; of invalid text the longest part that begins a character, as Unicode recommends
  bool valid = false;
};

/// The character at the front of `text`, which must not be empty.
DecodedChar decode_utf8(std::string_view text);
/// Appends `code`; surrogates and values above U+10FFFF become U+FFFD.
void append_utf8(std::string& out, uint32_t code);
/// Offset of the first ill-formed byte sequence; npos if there is none.
size_t find_invalid_utf8(std::string_view text);
inline bool is_valid_utf8(std::string_view text) { return find_invalid_utf8(text) == std::string_view::npos; }
/// Each ill-formed sequence replaced by U+FFFD, like Python's errors="replace" and Rust's from_utf8_lossy.
std::string make_valid_utf8(std::string_view text);
/// The text without its ill-formed sequences.
std::string without_invalid_utf8(std::string_view text);
/// Code points; each ill-formed sequence counts one.
size_t count_utf8(std::string_view text);
/// The number of bytes at the end of `text` that begin a character but do not finish it: 0 to 3. A stream keeps them until the rest arrives.
size_t incomplete_utf8_tail(std::string_view text);

}  // namespace tern
