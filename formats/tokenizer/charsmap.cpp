#include "formats/tokenizer/charsmap.h"

#include <cstring>

#include "base/error.h"
#include "base/utf8.h"
#include "formats/tokenizer/graphemes.h"
#include "formats/tokenizer/unicode.h"

namespace tern {

namespace {

constexpr size_t kMaxTrieBytes = size_t{1} << 26;
constexpr size_t kMaxClusterBytes = 5;  // the reference looks longer ones up by characters

bool is_leaf_above(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t value_of(uint32_t unit) { return unit & 0x7FFFFFFF; }
uint32_t label_of(uint32_t unit) { return unit & 0x800000FF; }
size_t offset_of(uint32_t unit) { return static_cast<size_t>(unit >> 10) << ((unit & 0x200) >> 6); }

}  // namespace

Charsmap::Charsmap(std::string_view bytes, std::string place) : place_(std::move(place)) {
  const auto read_u32 = [&](size_t at) {
    uint32_t v = 0;
    for (size_t k = 4; k-- > 0;) v = v << 8 | static_cast<uint8_t>(bytes[at + k]);
    return v;
  };
  if (bytes.size() < 4)
    throw Error(ErrorKind::bad_file, "{}: {} bytes of rules, expected at least 4; is the file complete?", place_,
                bytes.size());
  const size_t trie_bytes = read_u32(0);
  if (trie_bytes > bytes.size() - 4 || trie_bytes % 4 != 0 || trie_bytes > kMaxTrieBytes || trie_bytes < 4)
    throw Error(ErrorKind::bad_file, "{}: a trie of {} bytes in {} bytes of rules; is the file complete?", place_,
                trie_bytes, bytes.size());
  units_.resize(trie_bytes / 4);
  for (size_t i = 0; i < units_.size(); ++i) units_[i] = read_u32(4 + 4 * i);
  replacements_ = bytes.substr(4 + trie_bytes);
  if (const size_t bad = find_invalid_utf8(replacements_); bad != std::string_view::npos)
    throw Error(ErrorKind::bad_file, "{}: the replacements are not UTF-8 at byte {}", place_, bad);
  const size_t root = offset_of(units_[0]);
  for (size_t byte = 1; byte < 256; ++byte) {
    const size_t at = root ^ byte;
    begins_[byte] = at < units_.size() && label_of(units_[at]) == byte;
  }
}

uint32_t Charsmap::unit(size_t at) const {
  if (at >= units_.size())
    throw Error(ErrorKind::bad_file, "{}: the trie leads to unit {} of {}; is the file damaged?", place_, at,
                units_.size());
  return units_[at];
}

std::string_view Charsmap::replacement_at(size_t at) const {
  const bool inside = at < replacements_.size() && (static_cast<uint8_t>(replacements_[at]) & 0xC0) != 0x80;
  if (!inside && at != replacements_.size())
    throw Error(ErrorKind::bad_file, "{}: a rule leads to byte {} of {} bytes of replacements; is the file damaged?",
                place_, at, replacements_.size());
  return std::string_view(replacements_).substr(at, std::strlen(replacements_.c_str() + at));
}

std::optional<Charsmap::Match> Charsmap::find(std::string_view text, bool first) const {
  if (text.empty() || !begins(text[0])) return std::nullopt;
  std::optional<Match> found;
  size_t at = offset_of(units_[0]);
  for (size_t i = 0; i < text.size() && text[i] != 0; ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    at ^= byte;
    const uint32_t u = unit(at);
    if (label_of(u) != byte) break;
    at ^= offset_of(u);
    if (!is_leaf_above(u)) continue;
    found = Match{i + 1, replacement_at(value_of(unit(at)))};
    if (first) break;
  }
  return found;
}

std::string apply_by_clusters(const Charsmap& map, std::string_view text, const TextBudget& budget) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    budget.check_bytes(out.size(), "normalizer: Precompiled");
    const auto is_ascii = [&](size_t at) { return static_cast<uint8_t>(text[at]) < 0x80; };
    // A cluster of one: plain text with plain text behind it.
    const bool alone = is_ascii(i) && text[i] != '\r' && (i + 1 == text.size() || is_ascii(i + 1));
    if (alone && !map.begins(text[i])) {
      out += text[i++];
      continue;
    }
    const size_t end = alone ? i + 1 : grapheme_end(text, i);
    if (end - i <= kMaxClusterBytes) {
      if (const auto match = map.shortest(text.substr(i, end - i))) {
        out += match->replacement;
        i = end;
        continue;
      }
    }
    while (i < end) {
      const std::string_view character = text.substr(i, static_cast<size_t>(code_point_at(text, i).size));
      const auto match = map.shortest(character);
      out += match ? match->replacement : character;
      i += character.size();
    }
  }
  return out;
}

}  // namespace tern
