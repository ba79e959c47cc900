#pragma once
// What the scanners of split patterns ask of a character: one byte of flags, two look-ups.

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "formats/tokenizer/unicode.h"

namespace tern {

// Exactly one of the first four holds. kScanUpper and kScanLower: what may stand in the first and in the second half of
// a word of pattern o200k; letters without case, and marks, may stand in both.
enum ScanFlag : uint8_t {
  kScanLetter = 1,
  kScanNumber = 2,
  kScanSpace = 4,
  kScanOther = 8,
  kScanUpper = 16,
  kScanLower = 32,
  kScanMark = 64,
  kScanSign = 128,  // punctuation and symbols
};

/// The flags of every character, in pages of 256.
struct ScanTable {
  std::array<uint8_t, 256> of_byte{};  // 0 from 0x80 on: part of a longer character
  std::array<uint16_t, 0x1100> page_of{};
  std::vector<std::array<uint8_t, 256>> pages;
  uint8_t of(uint32_t c) const { return pages[page_of[c >> 8]][c & 255]; }
};
/// The table, made at the first call.
const ScanTable& scan_table();

}  // namespace tern
