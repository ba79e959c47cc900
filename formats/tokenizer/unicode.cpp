#include "formats/tokenizer/unicode.h"

#include <array>
#include <vector>

namespace tern {

namespace {

// One bit per class for every code point, in pages of 256; pages without a member share page 0.
struct ClassTable {
  std::array<uint16_t, 0x1100> page_of{};
  std::vector<std::array<uint32_t, 256>> pages{1};

  ClassTable() {
    for (int c = 0; c < kNumCharClasses; ++c)
      for (const CodeRange r : code_ranges(static_cast<CharClass>(c)))
        for (uint32_t point = r.first; point <= r.last; ++point) {
          uint16_t& page = page_of[point >> 8];
          if (page == 0) {
            page = static_cast<uint16_t>(pages.size());
            pages.emplace_back();
          }
          pages[page][point & 255] |= 1u << c;
        }
  }
};

const ClassTable& class_table() {
  static const ClassTable table;
  return table;
}

}  // namespace

bool in_class(CharClass c, uint32_t point) {
  const ClassTable& t = class_table();
  return point < 0x110000 && (t.pages[t.page_of[point >> 8]][point & 255] >> static_cast<int>(c) & 1u);
}

size_t code_point_before(std::string_view text, size_t i) {
  do --i;
  while (i > 0 && (static_cast<uint8_t>(text[i]) & 0xC0) == 0x80);
  return i;
}

}  // namespace tern
