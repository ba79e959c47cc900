#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/utf8.h"
#include "infer/constrain/expression.h"

namespace tern {
namespace {

constexpr int kMostDepth = 200, kMostRepetitions = 8;  // of groups in each other; behind one part
constexpr int64_t kMostRepeats = 100'000;
constexpr uint32_t kLastCharacter = 0x10ffff;
using Ranges = std::vector<std::pair<uint32_t, uint32_t>>;

Ranges in_order(Ranges ranges) {
  std::sort(ranges.begin(), ranges.end());
  Ranges merged;
  for (const auto& [low, high] : ranges)
    if (!merged.empty() && low <= merged.back().second + 1)
      merged.back().second = std::max(merged.back().second, high);
    else
      merged.emplace_back(low, high);
  return merged;
}

Ranges all_but(const Ranges& ranges) {
  Ranges rest;
  uint32_t from = 0;
  for (const auto& [low, high] : ranges) {
    if (low > from) rest.emplace_back(from, low - 1);
    from = high + 1;
  }
  if (from <= kLastCharacter) rest.emplace_back(from, kLastCharacter);
  return rest;
}

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

struct Parser {
  std::string_view text;
  const std::string& place;
  size_t at = 0;
  std::vector<Rule> rules = {};
  std::map<std::string, int32_t, std::less<>> index = {};

  int line() const {
    return 1 + static_cast<int>(std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(at), '\n'));
  }
  [[noreturn]] void fail(const std::string& fact) const {
    throw Error(ErrorKind::usage, "{}: line {}: {}", place, line(), fact);
  }
  bool done() const { return at >= text.size(); }
  bool is(std::string_view word) const { return text.substr(at).starts_with(word); }
  void space() {
    while (!done() && (is(" ") || is("\t") || is("\r") || is("\n") || is("#"))) {
      if (is("#"))
        at = std::min(text.find('\n', at), text.size());
      else
        ++at;
    }
  }
  bool take(std::string_view word) {
    if (!is(word)) return false;
    at += word.size();
    space();
    return true;
  }
  std::string name() {
    const size_t begin = at;
    while (!done() && is_name(text[at])) ++at;
    if (begin == at) fail("expected the name of a rule (letters, digits, - and _)");
    std::string found(text.substr(begin, at - begin));
    space();
    return found;
  }
  int32_t rule(const std::string& name) {
    const auto [found, is_new] = index.emplace(name, static_cast<int32_t>(rules.size()));
    if (is_new) rules.push_back({.name = name, .body = {}, .defined = false});
    return found->second;
  }
  bool begins_rule() {
    const size_t before = at;
    while (!done() && is_name(text[at])) ++at;
    const bool named = at > before;
    space();
    const bool is_one = named && is("::=");
    at = before;
    return is_one;
  }
  uint32_t character();
  int64_t number();
  Expression parse_text();
  Expression parse_class();
  Expression parse_choice(int depth);
  Expression parse_part(int depth);
};

// One character of a text or a class, escapes read.
uint32_t Parser::character() {
  if (done()) fail("the text or class has no end");
  if (text[at] != '\\') {
    const DecodedChar c = decode_utf8(text.substr(at));
    if (!c.valid) fail("is no UTF-8");
    at += static_cast<size_t>(c.num_bytes);
    return c.code;
  }
  if (++at >= text.size()) fail("the text or class has no end");
  const char kind = text[at++];
  const int digits = kind == 'x' ? 2 : kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
  if (digits == 0) {
    switch (kind) {
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
      case '^':
        return static_cast<uint32_t>(kind);
      default:
        fail(fmt::format("\\{} is no escape; there are \\n \\r \\t \\\\ \\\" \\[ \\] \\- \\^ \\xNN \\uNNNN \\UNNNNNNNN",
                         kind));
    }
  }
  uint64_t code = 0;
  for (int i = 0; i < digits; ++i, ++at) {
    const char c = done() ? ' ' : text[at];
    const int value = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (value < 0) fail(fmt::format("\\{} wants {} hexadecimal digits", kind, digits));
    code = code * 16 + static_cast<uint64_t>(value);
  }
  if (code > kLastCharacter || (code >= 0xd800 && code <= 0xdfff)) fail(fmt::format("U+{:04X} is no character", code));
  return static_cast<uint32_t>(code);
}

int64_t Parser::number() {
  int64_t value = 0;
  const size_t begin = at;
  while (!done() && text[at] >= '0' && text[at] <= '9') {
    value = value * 10 + (text[at++] - '0');
    if (value > kMostRepeats) fail(fmt::format("a repetition of more than {}", kMostRepeats));
  }
  if (at == begin) fail("expected a number in {…}");
  space();
  return value;
}

Expression Parser::parse_text() {
  Expression e{.kind = ExpressionKind::text};
  for (++at; !is("\"");) append_utf8(e.text, character());
  ++at;
  return e;
}

Expression Parser::parse_class() {
  ++at;
  const bool negated = is("^");
  if (negated) ++at;
  Ranges ranges;
  while (!is("]")) {
    const uint32_t low = character();
    uint32_t high = low;
    if (is("-") && !is("-]")) ++at, high = character();
    if (high < low) fail("a range of characters ends before it begins");
    ranges.emplace_back(low, high);
  }
  ++at;
  ranges = in_order(std::move(ranges));
  return {.kind = ExpressionKind::chars, .chars = negated ? all_but(ranges) : ranges};
}

Expression Parser::parse_part(int depth) {
  Expression e;
  if (is("\"")) {
    e = parse_text();
  } else if (is("[")) {
    e = parse_class();
  } else if (is(".")) {
    ++at;
    e = {.kind = ExpressionKind::chars, .chars = {{0, kLastCharacter}}};
  } else if (take("(")) {
    e = parse_choice(depth + 1);
    if (!is(")")) fail("expected )");
    ++at;
  } else if (is("<") || is("!<")) {
    fail("a token in <…> is not supported; write its text in quotes");
  } else {
    e = {.kind = ExpressionKind::rule, .rule = rule(name())};
  }
  space();
  for (int repetitions = 0;; ++repetitions) {
    int64_t least = 0, most = -1;
    if (take("*")) {
    } else if (take("+")) {
      least = 1;
    } else if (take("?")) {
      most = 1;
    } else if (take("{")) {
      least = most = number();
      if (take(",")) most = is("}") ? -1 : number();
      if (!take("}")) fail("expected } behind a repetition");
      if (most >= 0 && most < least) fail("a repetition ends before it begins");
    } else {
      return e;
    }
    if (repetitions == kMostRepetitions) fail(fmt::format("more than {} repetitions of each other", kMostRepetitions));
    Expression repeat{.kind = ExpressionKind::repeat, .least = least, .most = most};
    repeat.parts.push_back(std::move(e));
    e = std::move(repeat);
  }
}

Expression Parser::parse_choice(int depth) {
  if (depth > kMostDepth) fail(fmt::format("more than {} groups in each other", kMostDepth));
  Expression choice{.kind = ExpressionKind::choice};
  do {
    Expression sequence;
    while (!done() && !is("|") && !is(")") && !begins_rule()) sequence.parts.push_back(parse_part(depth));
    choice.parts.push_back(std::move(sequence));
  } while (take("|"));
  return choice;
}

}  // namespace

Grammar parse_gbnf(std::string_view text, const std::string& place) {
  Parser p{.text = text, .place = place};
  p.space();
  while (!p.done()) {
    const auto r = static_cast<size_t>(p.rule(p.name()));
    if (p.rules[r].defined) p.fail(fmt::format("rule '{}' is there twice", p.rules[r].name));
    if (!p.take("::=")) p.fail(fmt::format("expected ::= behind '{}'", p.rules[r].name));
    Expression body = p.parse_choice(0);
    if (!p.done() && !p.begins_rule()) p.fail("expected the next rule");
    p.rules[r].body = std::move(body), p.rules[r].defined = true;
  }
  return lower_rules(p.rules, place);
}

}  // namespace tern
