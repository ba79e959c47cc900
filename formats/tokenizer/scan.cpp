// The common split patterns as straight code. Each alternative of a pattern is one step below, in its order.
#include "formats/tokenizer/scan.h"
#include "formats/tokenizer/scan_table.h"
#include "formats/tokenizer/unicode.h"

namespace tern {

namespace {

// The text from a position on, one character at a time.
struct Cursor {
  std::string_view text;
  const ScanTable& table;
  size_t at;
  uint8_t flags = 0;  // 0 at the end
  uint8_t size = 0;
  char byte = 0;  // the character's first

  Cursor(std::string_view t, size_t begin) : text(t), table(scan_table()), at(begin) { classify(); }
  void advance() {
    at += size;
    classify();
  }
  bool is(uint8_t mask) const { return (flags & mask) != 0; }
  bool is_newline() const { return byte == '\n' || byte == '\r'; }
  bool at_end() const { return size == 0; }
  uint32_t code() const { return at_end() ? 0 : code_point_at(text, at).value; }
  void skip_run(uint8_t mask) {
    while (is(mask)) {
      at += size;
      while (at < text.size() && (table.of_byte[static_cast<uint8_t>(text[at])] & mask) != 0) ++at;
      classify();
    }
  }
  void classify() {
    if (at >= text.size()) {
      flags = size = 0;
      byte = 0;
      return;
    }
    byte = text[at];
    if (static_cast<uint8_t>(byte) < 0x80) {
      flags = table.of_byte[static_cast<uint8_t>(byte)];
      size = 1;
      return;
    }
    const CodePoint c = code_point_at(text, at);
    flags = table.of(c.value);
    size = static_cast<uint8_t>(c.size);
  }
};

size_t end_of_run(Cursor c, uint8_t mask) {
  c.skip_run(mask);
  return c.at;
}

// 's|'t|'re|'ve|'m|'ll|'d behind the apostrophe at `at`; 0 if none. Case is ignored on request, where ſ is an s too.
size_t contraction_end(std::string_view text, size_t at, bool any_case) {
  const auto letter = [&](size_t k) -> char {
    if (at + k >= text.size()) return 0;
    const char c = text[at + k];
    return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  };
  const char a = letter(1), b = letter(2);
  if (a == 's' || a == 't') return at + 2;
  if ((a == 'r' || a == 'v') && b == 'e') return at + 3;
  if (a == 'm') return at + 2;
  if (a == 'l' && b == 'l') return at + 3;
  if (a == 'd') return at + 2;
  if (any_case && text.substr(at + 1, 2) == "\xC5\xBF") return at + 3;
  return 0;
}

// \s+(?!\S)|\s+ : a run of spaces gives its last one to the word behind it, unless it is the only one or the text ends.
size_t spaces_end(Cursor c) {
  size_t last = c.at;
  const size_t begin = c.at;
  while (c.is(kScanSpace)) {
    last = c.at;
    c.advance();
  }
  return c.at_end() || last == begin ? c.at : last;
}

// \s*[\r\n]+|\s+(?!\S)|\s+ : up to the last line end of the run, if there is one.
size_t lines_end(const Cursor& c) {
  size_t line_end = 0;
  for (Cursor run = c; run.is(kScanSpace); run.advance())
    if (run.is_newline()) line_end = run.at + 1;
  return line_end != 0 ? line_end : spaces_end(c);
}

// [\r\n]* (or [\r\n/]*) behind a run of signs
size_t newlines_end(Cursor c, bool slashes) {
  while (c.is_newline() || (slashes && c.byte == '/')) c.advance();
  return c.at;
}

size_t gpt2_piece(std::string_view text, size_t begin) {
  Cursor c(text, begin);
  if (c.byte == '\'')
    if (const size_t end = contraction_end(text, begin, false)) return end;
  if (c.byte == ' ') {
    Cursor next = c;
    next.advance();
    if (!next.at_end() && !next.is(kScanSpace)) return end_of_run(next, next.flags & 15);
    return spaces_end(c);
  }
  return c.is(kScanSpace) ? spaces_end(c) : end_of_run(c, c.flags & 15);
}

size_t llama3_piece(std::string_view text, size_t begin, int max_digits) {
  Cursor c(text, begin);
  if (c.byte == '\'')
    if (const size_t end = contraction_end(text, begin, true)) return end;

  // [^\r\n\p{L}\p{N}]?\p{L}+
  if (c.is(kScanLetter)) return end_of_run(c, kScanLetter);
  Cursor next = c;
  next.advance();
  if (!c.is(kScanNumber) && !c.is_newline() && next.is(kScanLetter)) return end_of_run(next, kScanLetter);

  // \p{N}{1,max_digits}
  if (c.is(kScanNumber)) {
    for (int i = 0; i < max_digits && c.is(kScanNumber); ++i) c.advance();
    return c.at;
  }

  //  ?[^\s\p{L}\p{N}]+[\r\n]*
  const bool blank_first = c.byte == ' ' && next.is(kScanOther);
  if (c.is(kScanOther) || blank_first) {
    Cursor run = blank_first ? next : c;
    run.skip_run(kScanOther);
    return newlines_end(run, false);
  }
  return lines_end(c);
}

// (?i:'s|'t|'re|'ve|'m|'ll|'d)? behind a word
size_t with_contraction(std::string_view text, size_t end) {
  if (end >= text.size() || text[end] != '\'') return end;
  const size_t with = contraction_end(text, end, true);
  return with != 0 ? with : end;
}

// [upper]*[lower]+ ; 0: no match. Where the run of upper ones ends without a lower one, its last that is both is lower.
size_t o200k_lower_word(Cursor c) {
  size_t end = 0;
  while (c.is(kScanUpper)) {
    const bool both = c.is(kScanLower);
    c.advance();
    if (both) end = c.at;
  }
  if (c.is(kScanLower)) {
    c.skip_run(kScanLower);
    end = c.at;
  }
  return end == 0 ? 0 : with_contraction(c.text, end);
}

// [upper]+[lower]* where o200k_lower_word finds nothing: upper ones only.
size_t o200k_upper_word(Cursor c) {
  if (!c.is(kScanUpper)) return 0;
  c.skip_run(kScanUpper);
  return with_contraction(c.text, c.at);
}

size_t o200k_piece(std::string_view text, size_t begin) {
  Cursor c(text, begin);
  // [^\r\n\p{L}\p{N}]? takes its character, which may be a mark, if a word follows it.
  Cursor next = c;
  next.advance();
  const bool may_precede = !c.is(kScanLetter | kScanNumber) && !c.is_newline();
  for (const auto word : {o200k_lower_word, o200k_upper_word}) {
    if (may_precede)
      if (const size_t end = word(next)) return end;
    if (const size_t end = word(c)) return end;
  }
  if (c.is(kScanNumber)) {
    for (int i = 0; i < 3 && c.is(kScanNumber); ++i) c.advance();
    return c.at;
  }
  Cursor run = c.byte == ' ' ? next : c;
  if (run.is(kScanOther)) {
    run.skip_run(kScanOther);
    return newlines_end(run, true);
  }
  return lines_end(c);
}

bool is_ascii_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_ascii_sign(char c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

// The match of DeepSeek's third pattern at c; 0 if there is none.
size_t deepseek_match(const Cursor& c) {
  // [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+
  if (is_ascii_sign(c.byte) && c.at + 1 < c.text.size() && is_ascii_letter(c.text[c.at + 1])) {
    size_t end = c.at + 1;
    while (end < c.text.size() && is_ascii_letter(c.text[end])) ++end;
    return end;
  }
  // [^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+
  Cursor next = c;
  next.advance();
  if (!c.at_end() && !c.is_newline() && !c.is(kScanLetter | kScanSign) && next.is(kScanLetter | kScanMark))
    return end_of_run(next, kScanLetter | kScanMark);
  if (c.is(kScanLetter | kScanMark)) return end_of_run(c, kScanLetter | kScanMark);
  //  ?[\p{P}\p{S}]+[\r\n]*
  Cursor run = c.byte == ' ' ? next : c;
  if (run.is(kScanSign)) {
    run.skip_run(kScanSign);
    return newlines_end(run, false);
  }
  return c.is(kScanSpace) ? lines_end(c) : 0;
}

//  ?[^(\s|[.,!?…。，、।۔،])]+ : the brackets inside are a set of their own, and the others members.
bool in_bloom_word(const Cursor& c) {
  if (c.at_end() || c.is(kScanSpace)) return false;
  switch (c.size == 1 ? static_cast<uint32_t>(c.byte) : c.code()) {
    case '(':
    case ')':
    case '|':
    case '.':
    case ',':
    case '!':
    case '?':
    case 0x2026:
    case 0x3002:
    case 0xFF0C:
    case 0x3001:
    case 0x964:
    case 0x6D4:
    case 0x60C:
      return false;
    default:
      return true;
  }
}

size_t bloom_match(Cursor c) {
  if (c.byte == ' ') c.advance();
  const size_t begin = c.at;
  while (in_bloom_word(c)) c.advance();
  return c.at == begin ? 0 : c.at;
}

bool in_east_asian_run(const Cursor& c) {  // [一-龥぀-ゟ゠-ヿ]
  if (c.size != 3) return false;
  const uint32_t point = c.code();
  return (point >= 0x4E00 && point <= 0x9FA5) || (point >= 0x3040 && point <= 0x30FF);
}

size_t east_asian_match(Cursor c) {
  const size_t begin = c.at;
  while (in_east_asian_run(c)) c.advance();
  return c.at == begin ? 0 : c.at;
}

size_t numbers_match(Cursor c) {
  const size_t begin = c.at;
  for (int i = 0; i < 3 && c.is(kScanNumber); ++i) c.advance();
  return c.at == begin ? 0 : c.at;
}

size_t three_digits_match(const Cursor& c) {
  const std::string_view digits = c.text.substr(c.at, 3);
  if (digits.size() < 3) return 0;
  for (const char d : digits)
    if (d < '0' || d > '9') return 0;
  return c.at + 3;
}

// A match, or what lies before the next one.
template <class Match>
size_t piece_or_gap(std::string_view text, size_t begin, const Match& match) {
  Cursor c(text, begin);
  if (const size_t end = match(c)) return end;
  do c.advance();
  while (!c.at_end() && match(c) == 0);
  return c.at;
}

}  // namespace

const ScanTable& scan_table() {
  static const ScanTable table = [] {
    ScanTable t;
    t.pages.resize(1);
    t.pages[0].fill(kScanOther);
    const auto mark = [&](CharClass members, uint8_t flags, bool instead) {
      for (const CodeRange r : code_ranges(members))
        for (uint32_t point = r.first; point <= r.last; ++point) {
          uint16_t& page = t.page_of[point >> 8];
          if (page == 0) {
            page = static_cast<uint16_t>(t.pages.size());
            t.pages.push_back(t.pages[0]);
          }
          uint8_t& f = t.pages[page][point & 255];
          f = static_cast<uint8_t>((instead ? f & ~kScanOther : f) | flags);
        }
    };
    mark(CharClass::letter, kScanLetter, true);
    mark(CharClass::number, kScanNumber, true);
    mark(CharClass::space, kScanSpace, true);
    mark(CharClass::mark, kScanMark | kScanUpper | kScanLower, false);
    for (const CharClass both : {CharClass::modifier, CharClass::other_letter})
      mark(both, kScanUpper | kScanLower, false);
    for (const CharClass upper : {CharClass::upper, CharClass::title}) mark(upper, kScanUpper, false);
    mark(CharClass::lower, kScanLower, false);
    for (const CharClass sign : {CharClass::punctuation, CharClass::symbol}) mark(sign, kScanSign, false);
    for (uint32_t c = 0; c < 0x80; ++c) t.of_byte[c] = t.of(c);
    return t;
  }();
  return table;
}

std::string_view pattern_of(ScanKind kind) {
  switch (kind) {
    case ScanKind::gpt2:
      return R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
    case ScanKind::llama3:
      return R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
    case ScanKind::cl100k:
      return R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)";
    case ScanKind::qwen2:
      return R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
    case ScanKind::o200k:
      return R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
    case ScanKind::deepseek:
      return R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
    case ScanKind::east_asian:
      return "[一-龥぀-ゟ゠-ヿ]+";
    case ScanKind::numbers:
      return R"(\p{N}{1,3})";
    case ScanKind::three_digits:
      return "[0-9][0-9][0-9]";
    case ScanKind::bloom:
      return R"( ?[^(\s|[.,!?…。，、।۔،])]+)";
  }
  return {};
}

size_t scan_piece(ScanKind kind, std::string_view text, size_t begin) {
  switch (kind) {
    case ScanKind::gpt2:
      return gpt2_piece(text, begin);
    case ScanKind::llama3:
    case ScanKind::cl100k:
      return llama3_piece(text, begin, 3);
    case ScanKind::qwen2:
      return llama3_piece(text, begin, 1);
    case ScanKind::o200k:
      return o200k_piece(text, begin);
    case ScanKind::deepseek:
      return piece_or_gap(text, begin, deepseek_match);
    case ScanKind::east_asian:
      return piece_or_gap(text, begin, east_asian_match);
    case ScanKind::numbers:
      return piece_or_gap(text, begin, numbers_match);
    case ScanKind::three_digits:
      return piece_or_gap(text, begin, three_digits_match);
    case ScanKind::bloom:
      return piece_or_gap(text, begin, bloom_match);
  }
  return text.size();
}

}  // namespace tern
