// Source  Unicode 16, UAX 29, rules GB3 to GB13; the classes as
// the reference's answers show them (dev/tokenizers/make_unicode_tables.py).
#include "formats/tokenizer/graphemes.h"

#include "formats/tokenizer/unicode.h"

namespace tern {

namespace {

enum class Hangul { none, leading, vowel, trailing, leading_vowel, syllable };
Hangul hangul(uint32_t c) {
  if ((c >= 0x1100 && c <= 0x115F) || (c >= 0xA960 && c <= 0xA97C)) return Hangul::leading;
  if ((c >= 0x1160 && c <= 0x11A7) || (c >= 0xD7B0 && c <= 0xD7C6)) return Hangul::vowel;
  if ((c >= 0x11A8 && c <= 0x11FF) || (c >= 0xD7CB && c <= 0xD7FB)) return Hangul::trailing;
  if (c >= 0xAC00 && c <= 0xD7A3) return (c - 0xAC00) % 28 == 0 ? Hangul::leading_vowel : Hangul::syllable;
  return Hangul::none;
}

bool hangul_joins(Hangul a, Hangul b) {
  if (a == Hangul::none || b == Hangul::none) return false;
  if (a == Hangul::leading) return b != Hangul::trailing;
  if (a == Hangul::leading_vowel || a == Hangul::vowel) return b == Hangul::vowel || b == Hangul::trailing;
  return b == Hangul::trailing;
}

bool is_regional(uint32_t c) { return c >= 0x1F1E6 && c <= 0x1F1FF; }
constexpr uint32_t kJoiner = 0x200D;

}  // namespace

size_t grapheme_end(std::string_view text, size_t i) {
  CodePoint c = code_point_at(text, i);
  i += static_cast<size_t>(c.size);
  if (c.value == '\r') return i < text.size() && text[i] == '\n' ? i + 1 : i;
  if (in_class(CharClass::cluster_control, c.value)) return i;
  bool has_consonant = false, has_linker = false;   // GB9c
  bool has_pictograph = false, has_joiner = false;  // GB11: a pictograph, marks, a joiner
  int num_regional = 0;                             // GB12
  uint32_t before = c.value;
  for (bool first = true;; first = false) {
    // What the character just taken means for the one behind it.
    if (in_class(CharClass::conjunct_consonant, before))
      has_consonant = true, has_linker = false;
    else if (in_class(CharClass::conjunct_linker, before))
      has_linker = has_consonant;
    else if (!in_class(CharClass::conjunct_extend, before))
      has_consonant = has_linker = false;
    if (in_class(CharClass::pictographic, before))
      has_pictograph = true, has_joiner = false;
    else if (before == kJoiner)
      has_joiner = has_pictograph, has_pictograph = false;
    else if (first || !in_class(CharClass::cluster_extend, before))
      has_pictograph = has_joiner = false;
    else
      has_joiner = false;
    num_regional = is_regional(before) ? num_regional + 1 : 0;

    if (i >= text.size()) return i;
    c = code_point_at(text, i);
    if (in_class(CharClass::cluster_control, c.value)) return i;
    const bool joins = in_class(CharClass::cluster_mark, c.value) || in_class(CharClass::cluster_prepend, before) ||
                       hangul_joins(hangul(before), hangul(c.value)) ||
                       (has_linker && in_class(CharClass::conjunct_consonant, c.value)) ||
                       (has_joiner && in_class(CharClass::pictographic, c.value)) ||
                       (num_regional % 2 == 1 && is_regional(c.value));
    if (!joins) return i;
    before = c.value;
    i += static_cast<size_t>(c.size);
  }
}

}  // namespace tern
