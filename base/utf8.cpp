#include "base/utf8.h"

#include <algorithm>
#include <cstring>

namespace tern {
namespace {

struct LeadByte {
  int num_bytes;      // 0: no character starts with this byte
  uint8_t low, high;  // allowed range of the second byte
};

LeadByte lead_byte(uint8_t b) {
  if (b < 0x80) return {1, 0, 0};
  if (b < 0xC2) return {0, 0, 0};
  if (b < 0xE0) return {2, 0x80, 0xBF};
  if (b == 0xE0) return {3, 0xA0, 0xBF};  // below: overlong
  if (b == 0xED) return {3, 0x80, 0x9F};  // above: surrogates
  if (b < 0xF0) return {3, 0x80, 0xBF};
  if (b == 0xF0) return {4, 0x90, 0xBF};  // below: overlong
  if (b < 0xF4) return {4, 0x80, 0xBF};
  if (b == 0xF4) return {4, 0x80, 0x8F};  // above: beyond U+10FFFF
  return {0, 0, 0};
}

// How many bytes of `text` belong to its first character, well-formed as far as they go.
int matching_prefix(std::string_view text, const LeadByte& lead) {
  int n = 1;
  while (n < lead.num_bytes && n < static_cast<int>(text.size())) {
    const auto b = static_cast<uint8_t>(text[n]);
    if (n == 1 ? (b < lead.low || b > lead.high) : (b & 0xC0) != 0x80) break;
    ++n;
  }
  return n;
}

}  // namespace

DecodedChar decode_utf8(std::string_view text) {
  const auto first = static_cast<uint8_t>(text[0]);
  const LeadByte lead = lead_byte(first);
  if (lead.num_bytes == 1) return {first, 1, true};
  if (lead.num_bytes == 0) return {0xFFFD, 1, false};
  const int n = matching_prefix(text, lead);
  if (n < lead.num_bytes) return {0xFFFD, n, false};
  uint32_t code = first & (0x7Fu >> lead.num_bytes);
  for (int i = 1; i < n; ++i) code = (code << 6) | (static_cast<uint8_t>(text[i]) & 0x3Fu);
  return {code, n, true};
}

void append_utf8(std::string& out, uint32_t code) {
  if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) code = 0xFFFD;
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | (code >> 6));
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | (code >> 12));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (code >> 18));
    out += static_cast<char>(0x80 | ((code >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  }
}

size_t find_invalid_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    if (static_cast<uint8_t>(text[at]) < 0x80) {
      ++at;
      uint64_t eight = 0;  // ASCII comes in long runs
      for (; at + 8 <= text.size(); at += 8) {
        std::memcpy(&eight, text.data() + at, 8);
        if ((eight & 0x8080808080808080u) != 0) break;
      }
      continue;
    }
    const DecodedChar c = decode_utf8(text.substr(at));
    if (!c.valid) return at;
    at += c.num_bytes;
  }
  return std::string_view::npos;
}

std::string make_valid_utf8(std::string_view text) {
  const size_t bad = find_invalid_utf8(text);
  if (bad == std::string_view::npos) return std::string(text);
  std::string out(text.substr(0, bad));
  for (size_t at = bad; at < text.size();) {
    const DecodedChar c = decode_utf8(text.substr(at));
    append_utf8(out, c.code);
    at += c.num_bytes;
  }
  return out;
}

std::string without_invalid_utf8(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const DecodedChar c = decode_utf8(text.substr(at));
    if (c.valid) out += text.substr(at, static_cast<size_t>(c.num_bytes));
    at += static_cast<size_t>(c.num_bytes);
  }
  return out;
}

size_t count_utf8(std::string_view text) {
  size_t count = 0;
  for (size_t at = 0; at < text.size(); ++count) at += decode_utf8(text.substr(at)).num_bytes;
  return count;
}

size_t incomplete_utf8_tail(std::string_view text) {
  for (size_t back = 1; back <= std::min<size_t>(3, text.size()); ++back) {
    const std::string_view tail = text.substr(text.size() - back);
    const LeadByte lead = lead_byte(static_cast<uint8_t>(tail[0]));
    if (lead.num_bytes == 0) {
      if ((static_cast<uint8_t>(tail[0]) & 0xC0) == 0x80) continue;  // a continuation byte: look further back
      return 0;
    }
    const bool unfinished =
        static_cast<int>(back) < lead.num_bytes && matching_prefix(tail, lead) == static_cast<int>(back);
    return unfinished ? back : 0;
  }
  return 0;
}

}  // namespace tern
