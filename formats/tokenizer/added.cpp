#include "formats/tokenizer/added.h"

#include <algorithm>

#include "formats/tokenizer/budget.h"
#include "formats/tokenizer/unicode.h"

namespace tern {

bool PlainRanges::covers(size_t begin, size_t end) const {
  const auto span = std::ranges::upper_bound(spans, begin, {}, &TextSpan::end);  // the first that ends behind begin
  return span != spans.end() && span->begin <= begin && end <= span->end;
}

bool PlainRanges::touches(size_t begin, size_t end) const {
  const auto span = std::ranges::upper_bound(spans, begin, {}, &TextSpan::end);
  return span != spans.end() && span->begin < end;
}

bool PlainRanges::names(const AddedToken& token) const {
  return token.special || std::ranges::find(tokens, token.id) != tokens.end();
}

void AddedMatcher::add(std::string_view spelling, uint32_t token_index) {
  if (spelling.empty()) return;
  starts_[static_cast<uint8_t>(spelling[0])] = true;
  entries_.push_back({std::string(spelling), static_cast<int32_t>(token_index)});
}

void AddedMatcher::seal() {
  std::ranges::stable_sort(entries_, {}, &Entry::spelling);
  std::vector<Entry> last;
  for (Entry& e : entries_) {
    if (!last.empty() && last.back().spelling == e.spelling)
      last.back() = std::move(e);
    else
      last.push_back(std::move(e));
  }
  entries_ = std::move(last);
}

// Narrows the entries that begin as the text does, byte by byte. The shortest of them stands first.
AddedMatcher::Match AddedMatcher::longest_at(std::string_view text, size_t begin) const {
  Match best;
  auto first = entries_.begin(), end = entries_.end();
  for (size_t depth = 0; first != end; ++depth) {
    if (first->spelling.size() == depth) {
      best = {depth, first->token, depth};
      if (++first == end) break;
    }
    best.looked_at = depth + 1;
    if (begin + depth == text.size()) break;
    const auto byte_at = [depth](const Entry& e) { return static_cast<uint8_t>(e.spelling[depth]); };
    const auto alike = std::ranges::equal_range(first, end, static_cast<uint8_t>(text[begin + depth]), {}, byte_at);
    first = alike.begin(), end = alike.end();
  }
  return best;
}

void AddedMatcher::split(std::string_view text, const std::vector<AddedToken>& tokens, bool allow_special,
                         std::vector<Part>& parts, const PlainRanges& plain, TextBudget* budget) const {
  constexpr size_t kByteWork = 4;  // each narrows the tokens that begin as the text does
  size_t done = 0;
  for (size_t i = 0; i < text.size() && !empty();) {
    if (!starts_[static_cast<uint8_t>(text[i])]) {
      ++i;
      continue;
    }
    const Match match = longest_at(text, i);
    if (budget) budget->spend_work(kByteWork * match.looked_at, "finding added tokens");
    if (match.token < 0) {
      ++i;
      continue;
    }
    size_t begin = i, end = i + match.size;
    i = end;  // a match that is refused below is used up all the same, as in the reference
    const AddedToken& token = tokens[static_cast<size_t>(match.token)];
    if (token.special && !allow_special) continue;
    if (plain.names(token) && plain.covers(begin, end)) {
      i = begin + 1;  // what begins within it may still reach out of the range
      continue;
    }
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
