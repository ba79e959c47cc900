// Python's functions on text, over marked text.
#include "formats/jinja/text.h"

#include <fmt/format.h>
#include <string.h>  // memmem
#include <utf8proc.h>

#include <algorithm>

#include "base/utf8.h"
#include "formats/jinja/case_table.h"
#include "formats/jinja/jinja_impl.h"

namespace tern::jinja {
namespace {

utf8proc_category_t category(uint32_t code) { return utf8proc_category(static_cast<utf8proc_int32_t>(code)); }
bool is_cased(uint32_t code) {
  const auto c = category(code);
  if (c == UTF8PROC_CATEGORY_LU || c == UTF8PROC_CATEGORY_LL || c == UTF8PROC_CATEGORY_LT) return true;
  return utf8proc_toupper(static_cast<utf8proc_int32_t>(code)) != static_cast<utf8proc_int32_t>(code) ||
         utf8proc_tolower(static_cast<utf8proc_int32_t>(code)) != static_cast<utf8proc_int32_t>(code);
}
bool is_case_ignorable(uint32_t code) {
  switch (category(code)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return code == '\'' || code == '.' || code == ':' || code == 0xb7 || code == 0x2019 || code == 0x2018 ||
             code == 0x2024 || code == 0x2027;
  }
}

const WideCase* wide_case(uint32_t code) {
  const auto* found = std::lower_bound(std::begin(kWideCases), std::end(kWideCases), code,
                                       [](const WideCase& w, uint32_t c) { return w.code < c; });
  return found != std::end(kWideCases) && found->code == code ? found : nullptr;
}

enum class Case { upper, lower, title };

struct Char {
  size_t at, size;
  uint32_t code;
};

template <class F>
void each_char(std::string_view text, F&& f) {
  for (size_t at = 0; at < text.size();) {
    const DecodedChar c = decode_utf8(text.substr(at));
    f(Char{at, static_cast<size_t>(c.num_bytes), c.code});
    at += static_cast<size_t>(c.num_bytes);
  }
}

// U+03A3 at the end of a word is the other small sigma.
bool final_sigma(std::string_view text, const Char& c) {
  bool before = false, after = false;
  for (size_t at = c.at; at > 0 && !before;) {
    do { --at; } while (at > 0 && (text[at] & 0xc0) == 0x80);
    const uint32_t code = decode_utf8(text.substr(at)).code;
    if (is_case_ignorable(code)) continue;
    before = is_cased(code);
    break;
  }
  for (size_t at = c.at + c.size; at < text.size();) {
    const DecodedChar next = decode_utf8(text.substr(at));
    at += static_cast<size_t>(next.num_bytes);
    if (is_case_ignorable(next.code)) continue;
    after = is_cased(next.code);
    break;
  }
  return before && !after;
}

void append_case(const MarkedText& text, const Char& c, Case to, MarkedText& out) {
  const uint8_t marks = text.marks_at(c.at);
  if (c.code < 0x80) {
    char byte = text.bytes[c.at];
    if (to == Case::lower && byte >= 'A' && byte <= 'Z') byte = static_cast<char>(byte + 32);
    if (to != Case::lower && byte >= 'a' && byte <= 'z') byte = static_cast<char>(byte - 32);
    return out.append(std::string_view(&byte, 1), marks);
  }
  if (to == Case::lower && c.code == 0x130) return out.append("i\xcc\x87", marks);
  if (to == Case::lower && c.code == 0x3a3) return out.append(final_sigma(text.bytes, c) ? "ς" : "σ", marks);
  if (const WideCase* wide = to == Case::lower ? nullptr : wide_case(c.code))
    return out.append(reinterpret_cast<const char*>(to == Case::upper ? wide->upper : wide->title), marks);
  const auto code = static_cast<utf8proc_int32_t>(c.code);
  std::string encoded;
  append_utf8(encoded, static_cast<uint32_t>(to == Case::lower   ? utf8proc_tolower(code)
                                             : to == Case::upper ? utf8proc_toupper(code)
                                                                 : utf8proc_totitle(code)));
  out.append(encoded, marks);
}

MarkedText with_case(const MarkedText& text, const std::function<Case(const Char&)>& choose) {
  MarkedText out;
  each_char(text.bytes, [&](const Char& c) { append_case(text, c, choose(c), out); });
  return out;
}

}  // namespace

bool is_space(uint32_t code) {
  return (code >= 9 && code <= 13) || (code >= 0x1c && code <= 0x20) || code == 0x85 || code == 0xa0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 || code == 0x2029 || code == 0x202f ||
         code == 0x205f || code == 0x3000;
}

size_t leading_space(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const DecodedChar c = decode_utf8(text.substr(at));
    if (!is_space(c.code)) break;
    at += static_cast<size_t>(c.num_bytes);
  }
  return at;
}

std::string_view trim_right(std::string_view text) {
  while (!text.empty()) {
    size_t at = text.size() - 1;
    while (at > 0 && (text[at] & 0xc0) == 0x80) --at;
    if (!is_space(decode_utf8(text.substr(at)).code)) break;
    text = text.substr(0, at);
  }
  return text;
}

MarkedText strip(const MarkedText& text, const std::string* chars, bool left, bool right) {
  std::vector<uint32_t> set;
  if (chars) each_char(*chars, [&](const Char& c) { set.push_back(c.code); });
  std::sort(set.begin(), set.end());
  const auto goes = [&](uint32_t code) {
    return chars ? std::binary_search(set.begin(), set.end(), code) : is_space(code);
  };
  const std::string_view bytes = text.bytes;
  size_t begin = 0, end = bytes.size();
  while (left && begin < end) {
    const DecodedChar c = decode_utf8(bytes.substr(begin));
    if (!goes(c.code)) break;
    begin += static_cast<size_t>(c.num_bytes);
  }
  while (right && end > begin) {
    size_t at = end - 1;
    while (at > begin && (bytes[at] & 0xc0) == 0x80) --at;
    if (!goes(decode_utf8(bytes.substr(at)).code)) break;
    end = at;
  }
  return text.slice(begin, end);
}

MarkedText upper(const MarkedText& text) {
  return with_case(text, [](const Char&) { return Case::upper; });
}
MarkedText lower(const MarkedText& text) {
  return with_case(text, [](const Char&) { return Case::lower; });
}
MarkedText capitalize(const MarkedText& text) {
  return with_case(text, [](const Char& c) { return c.at == 0 ? Case::title : Case::lower; });
}
MarkedText title_words(const MarkedText& text) {
  bool inside = false;
  return with_case(text, [&](const Char& c) {
    const Case to = inside ? Case::lower : Case::title;
    inside = is_cased(c.code);
    return to;
  });
}
MarkedText title_jinja(const MarkedText& text) {
  bool inside = false;
  return with_case(text, [&](const Char& c) {
    const bool between =
        is_space(c.code) || c.code == '-' || c.code == '(' || c.code == '{' || c.code == '[' || c.code == '<';
    const Case to = inside || between ? Case::lower : Case::upper;
    inside = !between;
    return to;
  });
}
MarkedText swap_case(const MarkedText& text) {
  return with_case(text,
                   [](const Char& c) { return category(c.code) == UTF8PROC_CATEGORY_LU ? Case::lower : Case::upper; });
}

MarkedText escape_html(const MarkedText& text) {
  static constexpr std::pair<char, std::string_view> kEscapes[] = {
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'\'', "&#39;"}, {'"', "&#34;"}};
  MarkedText out;
  size_t from = 0;
  for (size_t i = 0; i < text.size(); ++i)
    for (const auto& [c, escaped] : kEscapes)
      if (text.bytes[i] == c) {
        out.append(text, from, i);
        out.append(escaped, text.marks_at(i));
        from = i + 1;
      }
  out.append(text, from, text.size());
  return out;
}

size_t find_text(std::string_view text, std::string_view part, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (part.empty()) return from;
  const void* found = memmem(text.data() + from, text.size() - from, part.data(), part.size());
  return found ? static_cast<size_t>(static_cast<const char*>(found) - text.data()) : std::string_view::npos;
}

size_t find_text_last(std::string_view text, std::string_view part) {
  if (part.empty()) return text.size();
  const std::string back(text.rbegin(), text.rend()), wanted(part.rbegin(), part.rend());
  const size_t at = find_text(back, wanted);
  return at == std::string_view::npos ? at : text.size() - at - part.size();
}

MarkedText replace(Meter* meter, const MarkedText& text, std::string_view from, const MarkedText& to, int64_t count) {
  meter->work(4 * text.size() + 64);
  MarkedText out;
  const auto put = [&] {
    out.append(to);
    meter->check_text(out.size());
    meter->work(to.size() + 64);
  };
  size_t at = 0;
  if (from.empty()) {  // between all characters
    each_char(text.bytes, [&](const Char& c) {
      if (count != 0) {
        put();
        --count;
      }
      out.append(text, c.at, c.at + c.size);
    });
    if (count != 0) put();
    return out;
  }
  for (; count != 0; --count) {
    const size_t found = find_text(text.bytes, from, at);
    if (found == std::string_view::npos) break;
    out.append(text, at, found);
    put();
    at = found + from.size();
  }
  out.append(text, at, text.size());
  return out;
}

namespace {

void charge_parts(Meter* meter, size_t parts) {
  meter->work(160);
  if (parts * 200 > static_cast<size_t>(meter->limits().max_memory_bytes))
    fail(JinjaFault::limit, "a split into too many parts");
}

}  // namespace

std::vector<MarkedText> split_space(Meter* meter, const MarkedText& text, int64_t count, bool from_right) {
  meter->work(text.size() + 64);
  const std::string_view bytes = text.bytes;
  std::vector<TextSpan> words;
  size_t at = leading_space(bytes);
  while (at < bytes.size()) {
    size_t end = at;
    while (end < bytes.size()) {
      const DecodedChar c = decode_utf8(bytes.substr(end));
      if (is_space(c.code)) break;
      end += static_cast<size_t>(c.num_bytes);
    }
    words.push_back({at, end});
    charge_parts(meter, words.size());
    at = end + leading_space(bytes.substr(end));
  }
  std::vector<MarkedText> parts;
  const size_t limit = count < 0 ? words.size() : static_cast<size_t>(count);
  if (words.size() <= limit || words.empty()) {
    for (const TextSpan& w : words) parts.push_back(text.slice(w.begin, w.end));
    return parts;
  }
  if (!from_right) {
    for (size_t i = 0; i < limit; ++i) parts.push_back(text.slice(words[i].begin, words[i].end));
    parts.push_back(text.slice(words[limit].begin, bytes.size()));
  } else {
    const size_t first = words.size() - limit;
    parts.push_back(text.slice(0, words[first - 1].end));
    for (size_t i = first; i < words.size(); ++i) parts.push_back(text.slice(words[i].begin, words[i].end));
  }
  return parts;
}

std::vector<MarkedText> split_at(Meter* meter, const MarkedText& text, std::string_view separator, int64_t count,
                                 bool from_right) {
  if (separator.empty()) type_error("empty separator");
  meter->work(text.size() + 64);
  std::vector<TextSpan> cuts;  // places of the separator
  if (!from_right) {
    for (size_t at = 0; count != 0; --count) {
      const size_t found = find_text(text.bytes, separator, at);
      if (found == std::string_view::npos) break;
      cuts.push_back({found, found + separator.size()});
      charge_parts(meter, cuts.size());
      at = found + separator.size();
    }
  } else {
    const std::string back(text.bytes.rbegin(), text.bytes.rend()), wanted(separator.rbegin(), separator.rend());
    for (size_t at = 0; count != 0; --count) {
      const size_t found = find_text(back, wanted, at);
      if (found == std::string_view::npos) break;
      at = found + wanted.size();
      cuts.push_back({text.size() - at, text.size() - found});
      charge_parts(meter, cuts.size());
    }
    std::reverse(cuts.begin(), cuts.end());
  }
  std::vector<MarkedText> parts;
  size_t from = 0;
  for (const TextSpan& cut : cuts) {
    parts.push_back(text.slice(from, cut.begin));
    from = cut.end;
  }
  parts.push_back(text.slice(from, text.size()));
  return parts;
}

std::vector<MarkedText> split_lines(Meter* meter, const MarkedText& text, bool keep_ends) {
  meter->work(text.size() + 64);
  const auto is_end = [](uint32_t c) {
    return (c >= 10 && c <= 13) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
  };
  std::vector<MarkedText> lines;
  size_t from = 0, skip = std::string_view::npos;
  each_char(text.bytes, [&](const Char& c) {
    if (c.at == skip || !is_end(c.code)) return;
    size_t end = c.at + c.size;
    if (c.code == '\r' && end < text.size() && text.bytes[end] == '\n') skip = end++;
    lines.push_back(text.slice(from, keep_ends ? end : c.at));
    charge_parts(meter, lines.size());
    from = end;
  });
  if (from < text.size()) lines.push_back(text.slice(from, text.size()));
  return lines;
}

size_t byte_offset(const TextObject& text, size_t chars) {
  if (text.ascii()) return std::min(chars, text.text.size());
  size_t at = 0;
  for (; chars > 0 && at < text.text.size(); --chars)
    at += static_cast<size_t>(decode_utf8(std::string_view(text.text.bytes).substr(at)).num_bytes);
  return at;
}

size_t char_offset(const TextObject& text, size_t bytes) {
  if (text.ascii()) return bytes;
  return count_utf8(std::string_view(text.text.bytes).substr(0, bytes));
}

bool text_is(const std::string& name, std::string_view text) {
  if (name == "isascii") return std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; });
  if (text.empty()) return false;
  bool all = true, cased = false, inside = false;
  each_char(text, [&](const Char& c) {
    const auto kind = category(c.code);
    const bool letter = kind == UTF8PROC_CATEGORY_LU || kind == UTF8PROC_CATEGORY_LL || kind == UTF8PROC_CATEGORY_LT ||
                        kind == UTF8PROC_CATEGORY_LM || kind == UTF8PROC_CATEGORY_LO;
    const bool decimal = kind == UTF8PROC_CATEGORY_ND;
    const bool number = decimal || kind == UTF8PROC_CATEGORY_NL || kind == UTF8PROC_CATEGORY_NO;
    const bool digit = decimal || c.code == 0xb2 || c.code == 0xb3 || c.code == 0xb9 || c.code == 0x2070 ||
                       (c.code >= 0x2074 && c.code <= 0x2079) || (c.code >= 0x2080 && c.code <= 0x2089);
    const bool up = kind == UTF8PROC_CATEGORY_LU || kind == UTF8PROC_CATEGORY_LT, low = kind == UTF8PROC_CATEGORY_LL;
    if (name == "isdigit") all = all && digit;
    if (name == "isdecimal") all = all && decimal;
    if (name == "isnumeric") all = all && number;
    if (name == "isalpha") all = all && letter;
    if (name == "isalnum") all = all && (letter || number);
    if (name == "isspace") all = all && is_space(c.code);
    if (name == "isupper") all = all && !low && kind != UTF8PROC_CATEGORY_LT;
    if (name == "islower") all = all && !up;
    if (name == "istitle") all = all && (up ? !inside : !low || inside);
    cased = cased || up || low;
    inside = up || low;
  });
  if (name == "isupper" || name == "islower" || name == "istitle") return all && cased;
  return all;
}

}  // namespace tern::jinja
