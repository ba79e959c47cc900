#include "formats/tokenizer/normal_form.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <span>

#include "base/error.h"
#include "base/utf8.h"
#include "formats/tokenizer/unicode.h"

namespace tern {
namespace {

// The reference's normalizer knows Unicode 9 to 12: characters and combining marks assigned since neither decompose nor
// change places there, so here they part the text. Found by comparing both libraries over all code points.
constexpr CodeRange kInertInNormalization[] = {
    {0x7fd, 0x7fd},     {0x898, 0x89f},     {0x8ca, 0x8d3},     {0x9fe, 0x9fe},     {0xc3c, 0xc3c},
    {0xd3b, 0xd3c},     {0xeba, 0xeba},     {0x1715, 0x1715},   {0x1abf, 0x1ace},   {0x1df6, 0x1dfa},
    {0x32ff, 0x32ff},   {0xa7f2, 0xa7f4},   {0xa82c, 0xa82c},   {0xab69, 0xab69},   {0x10781, 0x10785},
    {0x10787, 0x107b0}, {0x107b2, 0x107ba}, {0x10d24, 0x10d27}, {0x10eab, 0x10eac}, {0x10efd, 0x10eff},
    {0x10f46, 0x10f50}, {0x10f82, 0x10f85}, {0x11070, 0x11070}, {0x1133b, 0x1133b}, {0x1145e, 0x1145e},
    {0x11839, 0x1183a}, {0x11938, 0x11938}, {0x1193d, 0x1193e}, {0x11943, 0x11943}, {0x119e0, 0x119e0},
    {0x11a34, 0x11a34}, {0x11a47, 0x11a47}, {0x11a99, 0x11a99}, {0x11d42, 0x11d42}, {0x11d44, 0x11d45},
    {0x11d97, 0x11d97}, {0x11f41, 0x11f42}, {0x16ff0, 0x16ff1}, {0x1e030, 0x1e06d}, {0x1e08f, 0x1e08f},
    {0x1e130, 0x1e136}, {0x1e2ae, 0x1e2ae}, {0x1e2ec, 0x1e2ef}, {0x1e4ec, 0x1e4ef}, {0x1f16c, 0x1f16c},
    {0x1fbf0, 0x1fbf9}};

bool is_inert(uint32_t c) {
  const auto above = std::ranges::upper_bound(kInertInNormalization, c, {}, &CodeRange::first);
  return above != std::begin(kInertInNormalization) && c <= std::prev(above)->last;
}

void append_normalized(std::string_view text, utf8proc_option_t options, std::string& out) {
  if (text.empty()) return;
  utf8proc_uint8_t* bytes = nullptr;
  const auto size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                 static_cast<utf8proc_ssize_t>(text.size()), &bytes, options);
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(bytes, &std::free);
  TERN_CHECK(size >= 0, "normalize_unicode: {}", utf8proc_errmsg(size));
  out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
}

}  // namespace

std::string normalize_unicode(std::string_view text, NormalForm form) {
  const bool compose = form == NormalForm::nfc || form == NormalForm::nfkc;
  const bool compat = form == NormalForm::nfkc || form == NormalForm::nfkd;
  const auto options = static_cast<utf8proc_option_t>(
      UTF8PROC_STABLE | (compose ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) | (compat ? UTF8PROC_COMPAT : 0));
  std::string out;
  out.reserve(text.size());
  if (std::ranges::all_of(text, [](char c) { return static_cast<uint8_t>(c) < 0x80; })) return out.append(text);
  size_t begin = 0;
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = code_point_at(text, i);
    if (is_inert(c.value)) {
      append_normalized(text.substr(begin, i - begin), options, out);
      begin = i + static_cast<size_t>(c.size);
      out.append(text.substr(i, begin - i));
    }
    i += static_cast<size_t>(c.size);
  }
  append_normalized(text.substr(begin), options, out);
  return out;
}

std::string lowercase_unicode(std::string_view text) {
  const std::span<const CodeMap> map = lowercase_map();
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = code_point_at(text, i);
    i += static_cast<size_t>(c.size);
    if (c.value < 0x80) {
      out += static_cast<char>(c.value >= 'A' && c.value <= 'Z' ? c.value + 32 : c.value);
      continue;
    }
    const auto found = std::ranges::lower_bound(map, c.value, {}, &CodeMap::from);
    if (found == map.end() || found->from != c.value) {
      append_utf8(out, c.value);
      continue;
    }
    append_utf8(out, found->to);
    if (found->then != 0) append_utf8(out, found->then);
  }
  return out;
}

}  // namespace tern
