#pragma once
// How byte-level BPE spells bytes as characters.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace tern {

/// Character of a byte in byte-level BPE: printable ones stand for themselves, the others from U+0100 on.
/// Source  GPT-2's bytes_to_unicode.
const std::array<uint16_t, 256>& byte_level_characters();
/// The inverse; -1 where a character stands for no byte.
int byte_of_character(uint32_t c);
void append_byte_level(std::string_view bytes, std::string& out);

}  // namespace tern
