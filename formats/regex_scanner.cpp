// The common split patterns as straight code. Each alternative of the pattern is one step below, in its order.
#include "formats/regex.h"
#include "formats/tokenizer_unicode.h"

namespace tern {

namespace {

enum class Kind : uint8_t { letter, number, space, other, end };

// The text from a position on, one code point at a time.
struct Cursor {
  std::string_view text;
  size_t at = 0;
  CodePoint point{0, 0};
  Kind kind = Kind::end;

  Cursor(std::string_view t, size_t begin) : text(t), at(begin) { classify(); }
  void advance() {
    at += static_cast<size_t>(point.size);
    classify();
  }
  bool is_newline() const { return kind == Kind::space && (point.value == '\r' || point.value == '\n'); }
  void classify() {
    if (at >= text.size()) {
      kind = Kind::end;
      point = {0, 0};
      return;
    }
    point = code_point_at(text, at);
    const uint32_t c = point.value;
    if (c < 0x80) {
      kind = (c | 32) >= 'a' && (c | 32) <= 'z' ? Kind::letter
             : c >= '0' && c <= '9'             ? Kind::number
             : is_space(c)                      ? Kind::space
                                                : Kind::other;
      return;
    }
    kind = in_class(CharClass::letter, c)   ? Kind::letter
           : in_class(CharClass::number, c) ? Kind::number
           : is_space(c)                    ? Kind::space
                                            : Kind::other;
  }
};

size_t end_of_run(Cursor c, Kind kind) {
  while (c.kind == kind) c.advance();
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
  while (c.kind == Kind::space) {
    last = c.at;
    c.advance();
  }
  return c.kind == Kind::end || last == begin ? c.at : last;
}

size_t gpt2_match(std::string_view text, size_t begin) {
  Cursor c(text, begin);
  if (c.point.value == '\'')
    if (const size_t end = contraction_end(text, begin, false)) return end;
  if (c.point.value == ' ') {
    Cursor next = c;
    next.advance();
    if (next.kind != Kind::space && next.kind != Kind::end) return end_of_run(next, next.kind);
    return spaces_end(c);
  }
  return c.kind == Kind::space ? spaces_end(c) : end_of_run(c, c.kind);
}

size_t llama3_match(std::string_view text, size_t begin, int max_digits) {
  Cursor c(text, begin);
  if (c.point.value == '\'')
    if (const size_t end = contraction_end(text, begin, true)) return end;

  // [^\r\n\p{L}\p{N}]?\p{L}+
  if (c.kind == Kind::letter) return end_of_run(c, Kind::letter);
  Cursor next = c;
  next.advance();
  if (c.kind != Kind::number && !c.is_newline() && next.kind == Kind::letter) return end_of_run(next, Kind::letter);

  // \p{N}{1,max_digits}
  if (c.kind == Kind::number) {
    for (int i = 0; i < max_digits && c.kind == Kind::number; ++i) c.advance();
    return c.at;
  }

  //  ?[^\s\p{L}\p{N}]+[\r\n]*
  const bool blank_first = c.point.value == ' ' && next.kind == Kind::other;
  if (c.kind == Kind::other || blank_first) {
    Cursor run = blank_first ? next : c;
    while (run.kind == Kind::other) run.advance();
    while (run.is_newline()) run.advance();
    return run.at;
  }

  // \s*[\r\n]+ : up to the last line end of the run
  size_t line_end = 0;
  for (Cursor run = c; run.kind == Kind::space; run.advance())
    if (run.is_newline()) line_end = run.at + 1;
  return line_end != 0 ? line_end : spaces_end(c);
}

}  // namespace

std::string_view pattern_of(ScanKind kind) {
  switch (kind) {
    case ScanKind::gpt2:
      return R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
    case ScanKind::llama3:
      return R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
    case ScanKind::qwen2:
      return R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  }
  return {};
}

size_t scan_match(ScanKind kind, std::string_view text, size_t begin) {
  switch (kind) {
    case ScanKind::gpt2:
      return gpt2_match(text, begin);
    case ScanKind::llama3:
      return llama3_match(text, begin, 3);
    case ScanKind::qwen2:
      return llama3_match(text, begin, 1);
  }
  return text.size();
}

}  // namespace tern
