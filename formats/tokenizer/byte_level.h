#pragma once
// How byte-level BPE spells bytes as characters.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace tern {

/// The character that stands for each byte: printable bytes stand for themselves, the others for U+0100 and the
/// following.
/// Source  GPT-2's bytes_to_unicode.
const std::array<uint16_t, 256>& byte_level_characters();
/// The byte that a character stands for; -1: none.
int byte_of_character(uint32_t c);
/// Appends the characters of the bytes to `out`, as UTF-8.
void append_byte_level(std::string_view bytes, std::string& out);

}  // namespace tern
