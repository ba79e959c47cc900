#include "formats/tokenizer_added.h"

#include <algorithm>

#include "formats/tokenizer_unicode.h"

namespace tern {

void AddedMatcher::add(std::string_view spelling, uint32_t token_index) {
  if (spelling.empty()) return;
  starts_[static_cast<uint8_t>(spelling[0])] = true;
  uint32_t at = 0;
  for (const char c : spelling) {
    const auto byte = static_cast<uint8_t>(c);
    const auto found = std::ranges::find(nodes_[at].next, byte, &std::pair<uint8_t, uint32_t>::first);
    if (found != nodes_[at].next.end()) {
      at = found->second;
    } else {
      const auto child = static_cast<uint32_t>(nodes_.size());
      nodes_[at].next.emplace_back(byte, child);
      nodes_.emplace_back();
      at = child;
    }
  }
  nodes_[at].token = static_cast<int32_t>(token_index);
}

AddedMatcher::Match AddedMatcher::longest_at(std::string_view text, size_t begin) const {
  Match best;
  uint32_t at = 0;
  for (size_t i = begin; i < text.size(); ++i) {
    const auto& next = nodes_[at].next;
    const auto found = std::ranges::find(next, static_cast<uint8_t>(text[i]), &std::pair<uint8_t, uint32_t>::first);
    if (found == next.end()) break;
    at = found->second;
    if (nodes_[at].token >= 0) best = {i + 1 - begin, nodes_[at].token};
  }
  return best;
}

void AddedMatcher::split(std::string_view text, const std::vector<AddedToken>& tokens, bool allow_special,
                         std::vector<Part>& parts) const {
  size_t done = 0;
  for (size_t i = 0; i < text.size() && !empty();) {
    if (!starts_[static_cast<uint8_t>(text[i])]) {
      ++i;
      continue;
    }
    const Match match = longest_at(text, i);
    if (match.token < 0) {
      ++i;
      continue;
    }
    size_t begin = i, end = i + match.size;
    i = end;  // a match that is refused below is used up all the same, as in the reference
    const AddedToken& token = tokens[static_cast<size_t>(match.token)];
    if (token.special && !allow_special) continue;
    if (token.single_word) {
      const auto is_word = [&](size_t at) { return in_class(CharClass::word, code_point_at(text, at).value); };
      if ((begin > 0 && is_word(code_point_before(text, begin))) || (end < text.size() && is_word(end))) continue;
    }
    while (token.lstrip && begin > done && is_space(code_point_at(text, code_point_before(text, begin)).value))
      begin = code_point_before(text, begin);
    while (token.rstrip && end < text.size() && is_space(code_point_at(text, end).value))
      end += static_cast<size_t>(code_point_at(text, end).size);
    if (done < begin) parts.push_back({done, begin, -1});
    parts.push_back({begin, end, match.token});
    done = end;
  }
  if (done < text.size()) parts.push_back({done, text.size(), -1});
}

}  // namespace tern
