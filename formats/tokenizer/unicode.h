#pragma once
// Classes of characters as the reference tokenizers see them: Unicode 16, or their libraries' own tables where those
// differ.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tern {

/// Code points first to last.
struct CodeRange {
  uint32_t first, last;
};
/// A character and what it becomes in lower case.
struct CodeMap {
  uint32_t from, to, then;
};  // then: a second code point, or 0

/// Classes of characters; a character may be in several.
enum class CharClass : uint8_t {
  letter,
  upper,
  lower,
  title,
  modifier,
  other_letter,
  mark,
  number,
  digit,
  punctuation,
  symbol,
  han,
  space,             // regex
  word,              // \w of added tokens' single_word and of the Whitespace step
  numeric,           // what the Digits step splits
  punctuation_step,  // what the Punctuation step splits
  accent,            // what StripAccents removes
  bert_removed,      // BertNormalizer: what clean_text removes, what it makes a space,
  bert_space,        //
  bert_alone,        // what handle_chinese_chars puts between spaces,
  bert_accent,       // what strip_accents removes after NFD
  cluster_mark,      // grapheme clusters (UAX 29): what joins the character before it,
  cluster_extend,    // of these, what may stand between a pictograph and a zero-width joiner
  cluster_prepend,   //
  cluster_control,   // carriage return and line feed too
  pictographic,
  conjunct_consonant,
  conjunct_linker,
  conjunct_extend,
};
constexpr int kNumCharClasses = 29;

std::span<const CodeRange> code_ranges(CharClass);  // rising, disjoint
std::span<const CodeMap> lowercase_map();           // rising

/// Whether code point c is in the class: one table look-up below U+20000, then a short search.
bool in_class(CharClass, uint32_t c);
inline bool is_space(uint32_t c) {
  return c < 0x80 ? (c == 0x20 || (c >= 9 && c <= 13)) : in_class(CharClass::space, c);
}

/// A code point, and the number of bytes that it takes.
struct CodePoint {
  uint32_t value;
  int size;
};
/// The code point that begins at text[i]; `text` is valid UTF-8.
inline CodePoint code_point_at(std::string_view text, size_t i) {
  const auto byte = [&](size_t k) { return static_cast<uint32_t>(static_cast<uint8_t>(text[i + k])); };
  const uint32_t b = byte(0);
  if (b < 0x80) return {b, 1};
  if (b < 0xE0) return {(b & 0x1F) << 6 | (byte(1) & 0x3F), 2};
  if (b < 0xF0) return {(b & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F), 3};
  return {(b & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F), 4};
}
/// Where the code point before text[i] begins.
size_t code_point_before(std::string_view text, size_t i);

}  // namespace tern
