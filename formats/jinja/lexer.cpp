// Source  Jinja2 3.1.6, whose lexer is a set of regular expressions; the rules are restated here as a scanner.
#include "formats/jinja/lexer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.h"
#include "formats/jinja/jinja_impl.h"
#include "formats/jinja/text.h"

namespace tern::jinja {
namespace {

constexpr size_t npos = std::string_view::npos;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) {
    for (size_t i = 0; i < source.size(); ++i) {  // every line end is \n, one at the very end goes
      if (source[i] == '\r') {
        source_ += '\n';
        if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
      } else {
        source_ += source[i];
      }
    }
    if (source_.ends_with('\n')) source_.pop_back();
  }

  std::vector<TokenAt> run() {
    while (at_ < source_.size()) text_and_tag();
    add(Token::end, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void syntax(std::string reason) const { throw Failure{JinjaFault::syntax, std::move(reason), line_}; }
  char peek(size_t ahead = 0) const { return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0'; }
  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  void add(Token token, std::string_view text, int base = 10) {
    tokens_.push_back({token, line_, std::string(text), base});
  }
  void advance(size_t n) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<ptrdiff_t>(at_),
                                         source_.begin() + static_cast<ptrdiff_t>(at_ + n), '\n'));
    at_ += n;
    line_starting_ = n > 0 && source_[at_ - 1] == '\n';
  }
  void skip_space() { advance(leading_space(rest())); }

  /// Where the next tag opens: "{{", "{%", "{#"; npos if nowhere.
  size_t next_tag() const {
    for (size_t i = source_.find('{', at_); i != std::string::npos && i + 1 < source_.size();
         i = source_.find('{', i + 1))
      if (source_[i + 1] == '{' || source_[i + 1] == '%' || source_[i + 1] == '#') return i;
    return npos;
  }

  void text_and_tag() {
    const size_t tag = next_tag();
    if (tag == npos) {
      add(Token::data, rest());
      at_ = source_.size();
      return;
    }
    const char kind = source_[tag + 1], sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    std::string_view text = std::string_view(source_).substr(at_, tag - at_);
    if (sign == '-') {
      text = trim_right(text);
    } else if (sign != '+' && kind != '{') {  // lstrip_blocks: white space between the line's start and the tag goes
      const size_t newline = text.rfind('\n'), begin = newline == npos ? 0 : newline + 1;
      if ((begin > 0 || line_starting_) && leading_space(text.substr(begin)) == text.size() - begin)
        text = text.substr(0, begin);
    }
    if (!text.empty()) add(Token::data, text);
    advance(tag - at_ + 2 + (sign == '-' || sign == '+' ? 1 : 0));
    if (kind == '#') return comment();
    if (kind == '{') {
      add(Token::variable_begin, "");
      return inside("}}", Token::variable_end);
    }
    if (raw()) return;
    add(Token::block_begin, "");
    inside("%}", Token::block_end);
  }

  // Consumes an end of a tag at the cursor, with its sign: '-' takes the white space behind, a block or comment without
  // a sign one line end. Zero: not here.
  size_t tag_end(std::string_view mark, size_t from, bool trims, bool plus) const {
    std::string_view text = std::string_view(source_).substr(from);
    if (text.starts_with('-') && text.substr(1).starts_with(mark)) return 3 + leading_space(text.substr(3));
    if (plus && text.starts_with('+') && text.substr(1).starts_with(mark)) return 3;
    if (!text.starts_with(mark)) return 0;
    return 2 + (trims && text.size() > 2 && text[2] == '\n' ? 1 : 0);
  }

  void comment() {
    for (size_t i = at_; i + 1 < source_.size(); ++i)
      if (const size_t n = tag_end("#}", i, true, true)) return advance(i + n - at_);
    syntax("Missing end of comment tag");
  }

  // {% raw %} … {% endraw %}, the cursor behind "{%".
  bool raw() {
    const size_t space = leading_space(rest());
    if (!rest().substr(space).starts_with("raw")) return false;
    const size_t word = space + 3, more = leading_space(rest().substr(word));
    const size_t end = tag_end("%}", at_ + word + more, false, false);
    if (end == 0) return false;
    advance(word + more + end);
    for (size_t i = at_; i + 1 < source_.size(); ++i) {
      if (source_[i] != '{' || source_[i + 1] != '%') continue;
      size_t j = i + 2;
      const char sign = j < source_.size() ? source_[j] : '\0';
      if (sign == '-' || sign == '+') ++j;
      j += leading_space(std::string_view(source_).substr(j));
      if (!std::string_view(source_).substr(j).starts_with("endraw")) continue;
      j += 6;
      j += leading_space(std::string_view(source_).substr(j));
      const size_t n = tag_end("%}", j, true, true);
      if (n == 0) continue;
      std::string_view text = std::string_view(source_).substr(at_, i - at_);
      if (sign == '-') {
        text = trim_right(text);
      } else if (sign != '+') {
        const size_t newline = text.rfind('\n'), begin = newline == npos ? 0 : newline + 1;
        if ((begin > 0 || line_starting_) && leading_space(text.substr(begin)) == text.size() - begin)
          text = text.substr(0, begin);
      }
      if (!text.empty()) add(Token::data, text);
      advance(j + n - at_);
      return true;
    }
    syntax("Missing end of raw directive");
  }

  void inside(std::string_view mark, Token end) {
    std::string open;  // brackets that wait for their partner: while there are any, the tag does not end
    while (true) {
      skip_space();
      if (at_ >= source_.size()) return;  // the parser sees that the tag does not end
      if (open.empty())
        if (const size_t n = tag_end(mark, at_, end == Token::block_end, end == Token::block_end)) {
          add(end, "");
          return advance(n);
        }
      const char c = peek();
      if (is_digit(c)) {
        number();
      } else if (is_word(c)) {
        size_t n = 0;
        while (is_word(peek(n))) ++n;
        add(Token::name, rest().substr(0, n));
        advance(n);
      } else if (c == '\'' || c == '"') {
        text(c);
      } else {
        operation(open);
      }
    }
  }

  void operation(std::string& open) {
    static constexpr std::string_view kTwo[] = {"//", "**", "==", "!=", ">=", "<="};
    static constexpr std::string_view kOne = "+-/*%~[](){}><=.:|,;";
    const int line = line_;
    size_t n = 0;
    for (const std::string_view op : kTwo)
      if (rest().starts_with(op)) n = 2;
    if (n == 0 && kOne.find(peek()) != npos) n = 1;
    if (n == 0) {
      const DecodedChar c = decode_utf8(rest());
      if (c.code >= 0x80) throw Failure{JinjaFault::unsupported, "a name that is not ASCII", line};
      syntax(fmt::format("unexpected char {}", repr_text(rest().substr(0, static_cast<size_t>(c.num_bytes)))));
    }
    const std::string_view op = rest().substr(0, n);
    if (op == "(" || op == "[" || op == "{") {
      open += op == "(" ? ')' : op == "[" ? ']' : '}';
      if (open.size() > kJinjaMaxNesting) throw Failure{JinjaFault::limit, "brackets nested too deep", line};
    } else if (op == ")" || op == "]" || op == "}") {
      if (open.empty()) syntax(fmt::format("unexpected '{}'", op));
      if (open.back() != op[0]) syntax(fmt::format("unexpected '{}', expected '{}'", op, open.back()));
      open.pop_back();
    }
    add(Token::op, op);
    advance(n);
  }

  // Digits with single underscores between them, from the cursor + n; the end of the run.
  template <class IsDigit>
  size_t digits(size_t n, IsDigit is) const {
    while (is(peek(n)) || (peek(n) == '_' && n > 0 && peek(n - 1) != '_' && is(peek(n + 1)))) ++n;
    return n;
  }

  void number() {
    const auto finish = [&](Token token, size_t from, size_t n, int base) {
      std::string plain(rest().substr(from, n - from));
      std::erase(plain, '_');
      add(token, plain, base);
      advance(n);
    };
    const bool after_dot = at_ > 0 && source_[at_ - 1] == '.';
    size_t n = digits(0, is_digit);
    size_t real = n;
    bool is_real = false;
    if (peek(real) == '.' && is_digit(peek(real + 1))) {
      real = digits(real + 1, is_digit);
      is_real = true;
    }
    if (peek(real) == 'e' || peek(real) == 'E') {
      const size_t sign = real + (peek(real + 1) == '+' || peek(real + 1) == '-' ? 2 : 1);
      if (is_digit(peek(sign))) {
        real = digits(sign, is_digit);
        is_real = true;
      }
    }
    if (is_real && !after_dot) return finish(Token::real, 0, real, 10);
    if (peek() == '0' && n == 1) {
      const char letter = static_cast<char>(peek(1) | 0x20);
      const int base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
      const auto is = [&](char c) { return hex_digit(c) >= 0 && hex_digit(c) < base; };
      const size_t first = peek(2) == '_' ? 3 : 2;
      if (base != 0 && is(peek(first))) return finish(Token::integer, first, digits(first, is), base);
    }
    if (peek() == '0')  // 007 is 00 and 7 to Jinja, which the parser then refuses
      n = digits(0, [](char c) { return c == '0'; });
    finish(Token::integer, 0, n, 10);
  }

  void text(char quote) {
    size_t n = 1;
    while (at_ + n < source_.size() && peek(n) != quote) n += peek(n) == '\\' ? 2 : 1;
    if (at_ + n >= source_.size()) syntax(fmt::format("unexpected char {}", repr_text(std::string(1, quote))));
    add(Token::text, unescape(rest().substr(1, n - 1)));
    advance(n + 1);
  }

  std::string unescape(std::string_view raw) const {
    std::string out;
    for (size_t i = 0; i < raw.size(); ++i) {
      if (raw[i] != '\\' || i + 1 >= raw.size()) {
        out += raw[i];
        continue;
      }
      const char c = raw[++i];
      static constexpr std::string_view kFrom = "\\'\"abfnrtv", kTo = "\\'\"\a\b\f\n\r\t\v";
      if (c == '\n') continue;  // a line that goes on
      if (const size_t at = kFrom.find(c); at != npos) {
        out += kTo[at];
      } else if (c == 'x' || c == 'u' || c == 'U') {
        const size_t size = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        uint32_t code = 0;
        for (size_t k = 1; k <= size; ++k) {
          const int digit = i + k < raw.size() ? hex_digit(raw[i + k]) : -1;
          if (digit < 0) syntax(fmt::format("'\\{}' without {} hexadecimal digits", c, size));
          code = code << 4 | static_cast<uint32_t>(digit);
        }
        append(out, code);
        i += size;
      } else if (c >= '0' && c <= '7') {
        uint32_t code = 0;
        size_t k = 0;
        for (; k < 3 && i + k < raw.size() && raw[i + k] >= '0' && raw[i + k] <= '7'; ++k)
          code = code << 3 | static_cast<uint32_t>(raw[i + k] - '0');
        append(out, code);
        i += k - 1;
      } else if (c == 'N') {
        throw Failure{JinjaFault::unsupported, "'\\N' escapes", line_};
      } else {
        out += '\\';
        out += c;
      }
    }
    return out;
  }

  void append(std::string& out, uint32_t code) const {
    if (code > 0x10ffff) syntax("an escape beyond U+10FFFF");
    if (code >= 0xd800 && code < 0xe000) throw Failure{JinjaFault::unsupported, "an escaped surrogate", line_};
    append_utf8(out, code);
  }

  std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::vector<TokenAt> tokens_;
};

}  // namespace

std::vector<TokenAt> lex(std::string_view source) { return Lexer(source).run(); }

}  // namespace tern::jinja
