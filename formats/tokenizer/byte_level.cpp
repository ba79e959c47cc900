#include "formats/tokenizer/byte_level.h"

namespace tern {

const std::array<uint16_t, 256>& byte_level_characters() {
  static const std::array<uint16_t, 256> characters = [] {
    std::array<uint16_t, 256> out{};
    uint16_t next = 0x100;
    for (uint16_t b = 0; b < 256; ++b) {
      const bool printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      out[b] = printable ? b : next++;
    }
    return out;
  }();
  return characters;
}

int byte_of_character(uint32_t c) {
  static const std::array<int16_t, 0x144> bytes = [] {
    std::array<int16_t, 0x144> out{};
    out.fill(-1);
    for (int b = 0; b < 256; ++b) out[byte_level_characters()[static_cast<size_t>(b)]] = static_cast<int16_t>(b);
    return out;
  }();
  return c < bytes.size() ? bytes[c] : -1;
}

void append_byte_level(std::string_view bytes, std::string& out) {
  const auto& characters = byte_level_characters();
  for (const char b : bytes) {
    const uint16_t c = characters[static_cast<uint8_t>(b)];  // below U+0800: one or two bytes
    if (c >= 0x80) out += static_cast<char>(0xC0 | c >> 6);
    out += static_cast<char>(c < 0x80 ? c : 0x80 | (c & 0x3F));
  }
}

}  // namespace tern
