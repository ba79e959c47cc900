#include "base/json.h"

#include <charconv>
#include <cmath>
#include <functional>
#include <unordered_set>

#include <nlohmann/json.hpp>

#include "base/bug.h"
#include "base/error.h"
#include "base/io.h"
#include "base/utf8.h"

namespace tern {
namespace {

// Recursive descent over the text (RFC 8259). Hand-written because nlohmann's callbacks carry no positions, and because
// its ordered objects look every new key up linearly: a vocabulary of 128k entries would take minutes.
class Parser {
 public:
  Parser(std::string_view text, std::string_view place, const JsonLimits& limits)
      : text_(text), place_(place), limits_(limits) {}

  Json document() {
    if (text_.size() > limits_.max_bytes)
      throw Error(ErrorKind::bad_file, "{}: {} bytes of JSON, more than the {} allowed here", place_, text_.size(),
                  limits_.max_bytes);
    if (text_.starts_with("\xEF\xBB\xBF")) fail(0, "starts with a byte order mark; save it as plain UTF-8");
    skip_space();
    Json value = parse_value(0);
    skip_space();
    if (at_ < text_.size()) fail(at_, fmt::format("found {} after the end of the JSON value", shown(at_)));
    return value;
  }

 private:
  Json parse_value(int depth) {
    if (at_ >= text_.size()) fail(at_, "the text ends where a value should be; is the file cut off?");
    switch (text_[at_]) {
      case '{':
        return parse_object(depth + 1);
      case '[':
        return parse_array(depth + 1);
      case '"':
        return parse_string();
      case 't':
        return literal("true", true);
      case 'f':
        return literal("false", false);
      case 'n':
        return literal("null", nullptr);
      case 'N':
      case 'I':
        fail(at_, "NaN and Infinity are not JSON; write a finite number or null");
      default:
        return parse_number();
    }
  }

  Json parse_object(int depth) {
    const size_t start = at_;
    check_depth(depth);
    ++at_;
    Json result = Json::object();
    // emplace_back of the underlying vector: ordered_map's own emplace searches all keys each time.
    Json::object_t& members = result.get_ref<Json::object_t&>();
    std::unordered_set<size_t> hashes;
    skip_space();
    if (take('}')) return result;
    for (;;) {
      const size_t key_at = at_;
      if (at_ >= text_.size()) fail(start, "this object is never closed; is the file cut off?");
      if (text_[at_] != '"') fail(at_, fmt::format("expected a key in quotes, found {}", shown(at_)));
      std::string key = parse_string();
      if (!hashes.insert(std::hash<std::string>{}(key)).second)
        for (const auto& member : members)
          if (member.first == key) fail(key_at, fmt::format("key {} appears twice in one object", quote_json(key)));
      skip_space();
      if (!take(':')) fail(at_, fmt::format("expected ':' after key {}, found {}", quote_json(key), shown(at_)));
      skip_space();
      members.emplace_back(std::move(key), parse_value(depth));
      skip_space();
      if (take('}')) return result;
      if (!take(',')) fail(at_, fmt::format("expected ',' or '}}', found {}", shown(at_)));
      skip_space();
    }
  }

  Json parse_array(int depth) {
    check_depth(depth);
    ++at_;
    Json result = Json::array();
    Json::array_t& elements = result.get_ref<Json::array_t&>();
    skip_space();
    if (take(']')) return result;
    for (;;) {
      elements.push_back(parse_value(depth));
      skip_space();
      if (take(']')) return result;
      if (!take(',')) fail(at_, fmt::format("expected ',' or ']', found {}", shown(at_)));
      skip_space();
    }
  }

  std::string parse_string() {
    const size_t start = at_++;
    std::string out;
    for (;;) {
      const size_t run = at_;
      while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\\' &&
             static_cast<unsigned char>(text_[at_]) >= 0x20)
        ++at_;
      out.append(text_.substr(run, at_ - run));
      if (out.size() > limits_.max_string_bytes)
        fail(start, fmt::format("a string longer than the {} bytes allowed here", limits_.max_string_bytes));
      if (at_ >= text_.size()) fail(start, "this string is never closed; is the file cut off?");
      if (text_[at_] == '"') break;
      if (text_[at_] != '\\') fail(at_, fmt::format("control character {} inside a string; escape it", shown(at_)));
      parse_escape(out);
    }
    const size_t bad = find_invalid_utf8(text_.substr(start, at_ - start));
    if (bad != std::string_view::npos) fail(start + bad, "this string is not valid UTF-8");
    ++at_;
    return out;
  }

  void parse_escape(std::string& out) {
    const size_t start = at_++;
    const char c = at_ < text_.size() ? text_[at_++] : '\0';
    switch (c) {
      case '"':
      case '\\':
      case '/':
        out += c;
        return;
      case 'b':
        out += '\b';
        return;
      case 'f':
        out += '\f';
        return;
      case 'n':
        out += '\n';
        return;
      case 'r':
        out += '\r';
        return;
      case 't':
        out += '\t';
        return;
      case 'u':
        break;
      default:
        fail(start, "an unknown escape in a string");
    }
    uint32_t code = parse_hex4(start);
    if (code >= 0xDC00 && code <= 0xDFFF) fail(start, "a low surrogate without the high one before it");
    if (code >= 0xD800 && code <= 0xDBFF) {
      if (!text_.substr(at_).starts_with("\\u")) fail(start, "a high surrogate without the low one after it");
      at_ += 2;
      const uint32_t low = parse_hex4(start);
      if (low < 0xDC00 || low > 0xDFFF) fail(start, "a high surrogate without the low one after it");
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    append_utf8(out, code);
  }

  uint32_t parse_hex4(size_t start) {
    uint32_t code = 0;
    const std::string_view digits = text_.substr(at_, 4);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (digits.size() != 4 || end != digits.data() + 4 || digits[0] == '-')
      fail(start, "\\u needs four hexadecimal digits");
    at_ += 4;
    return code;
  }

  Json parse_number() {
    const size_t start = at_;
    const auto digits = [&] {
      const size_t from = at_;
      while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
      return at_ - from;
    };
    bool whole = true;
    const bool negative = take('-');
    const size_t first = at_;
    if (digits() == 0) {
      if (negative && text_.substr(at_).starts_with("Infinity"))
        fail(start, "NaN and Infinity are not JSON; write a finite number or null");
      fail(start, fmt::format("expected a value, found {}", shown(start)));
    }
    if (text_[first] == '0' && at_ - first > 1) fail(start, "a number may not start with 0");
    if (take('.')) {
      whole = false;
      if (digits() == 0) fail(start, "a number needs digits after its point");
    }
    if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
      whole = false;
      ++at_;
      if (!take('-')) take('+');
      if (digits() == 0) fail(start, "a number needs digits in its exponent");
    }
    const char* begin = text_.data() + start;
    const char* end = text_.data() + at_;
    if (whole) {
      uint64_t u = 0;
      int64_t i = 0;
      if (!negative && std::from_chars(begin, end, u).ec == std::errc()) {
        if (u <= static_cast<uint64_t>(INT64_MAX)) return static_cast<int64_t>(u);
        return u;
      }
      if (negative && std::from_chars(begin, end, i).ec == std::errc()) return i;
    }
    double x = 0;
    const auto result = std::from_chars(begin, end, x);
    if (result.ec == std::errc::result_out_of_range) {
      x = std::strtod(std::string(begin, end).c_str(), nullptr);  // tells an underflow, which is fine, from an overflow
      if (!std::isfinite(x)) fail(start, "a number beyond the range of a double");
    }
    return x;
  }

  template <class T>
  Json literal(std::string_view word, T value) {
    if (!text_.substr(at_).starts_with(word)) fail(at_, fmt::format("expected a value, found {}", shown(at_)));
    at_ += word.size();
    return value;
  }

  void check_depth(int depth) {
    if (depth > limits_.max_depth) fail(at_, fmt::format("nested deeper than {} levels", limits_.max_depth));
  }

  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t'))
      ++at_;
  }

  std::string shown(size_t at) const {
    if (at >= text_.size()) return "the end of the text; is the file cut off?";
    const auto c = static_cast<unsigned char>(text_[at]);
    return c > 0x20 && c < 0x7f ? fmt::format("'{}'", text_[at]) : fmt::format("byte 0x{:02x}", c);
  }

  [[noreturn]] void fail(size_t at, const std::string& fact) const {
    size_t line = 1, line_start = 0;
    for (size_t i = 0; i < at && i < text_.size(); ++i)
      if (text_[i] == '\n') ++line, line_start = i + 1;
    throw Error(ErrorKind::bad_file, "{}: byte {} (line {}, column {}): {}", place_, at, line, at - line_start + 1,
                fact);
  }

  std::string_view text_, place_;
  JsonLimits limits_;
  size_t at_ = 0;
};

void check_finite(const Json& value) {
  if (value.is_number_float() && !std::isfinite(value.get<double>()))
    throw Bug("writing JSON: a number is {}, which JSON cannot hold", value.get<double>());
  if (value.is_structured())
    for (const auto& element : value) check_finite(element);
}

}  // namespace

Json parse_json(std::string_view text, std::string_view place, const JsonLimits& limits) {
  return Parser(text, place, limits).document();
}

Json read_json_file(const std::string& path, const JsonLimits& limits) {
  const auto info = real_io().stat(path);
  if (info && !info->is_directory && static_cast<uint64_t>(info->size_bytes) > limits.max_bytes)
    throw Error(ErrorKind::bad_file, "{}: {} bytes of JSON, more than the {} allowed here", path, info->size_bytes,
                limits.max_bytes);
  return parse_json(real_io().read(path), path, limits);
}

std::string dump_json(const Json& value, int indent) {
  check_finite(value);
  try {
    return value.dump(indent);
  } catch (const nlohmann::json::exception&) { throw Bug("writing JSON: a string is not valid UTF-8"); }
}

std::string quote_json(std::string_view text) {
  std::string out = "\"";
  for (const char c : make_valid_utf8(text)) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20)
          out += fmt::format("\\u{:04x}", static_cast<int>(c));
        else
          out += c;
    }
  }
  return out + "\"";
}

}  // namespace tern
