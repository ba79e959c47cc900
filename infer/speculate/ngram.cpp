#include "infer/speculate/ngram.h"

#include <algorithm>
#include <bit>

namespace tern {
namespace {

uint64_t key_of(int32_t a, int32_t b) {
  return static_cast<uint64_t>(static_cast<uint32_t>(a)) << 32 | static_cast<uint32_t>(b);
}

// 2, 3, 4, 5-8, 9-16, 17-32, more.
uint8_t kind_of(int64_t match) {
  if (match <= 4) return static_cast<uint8_t>(match - 2);
  return static_cast<uint8_t>(std::min<int>(std::bit_width(static_cast<uint64_t>(match - 1)), kGuessClasses - 1));
}

}  // namespace

NgramIndex::Match NgramIndex::find(std::span<const int32_t> tokens) {
  static_assert(kShortest == 2);
  const auto size = static_cast<int64_t>(tokens.size());
  const auto at = [&](int64_t i) { return tokens[static_cast<size_t>(i)]; };
  for (auto end = static_cast<int64_t>(before_.size()); end < size; ++end) {
    before_.push_back(-1);
    if (end == 0) continue;
    const auto [place, is_new] = last_.try_emplace(key_of(at(end - 1), at(end)), end);
    if (!is_new) before_.back() = std::exchange(place->second, static_cast<int32_t>(end));
  }
  Match best;
  if (size < kShortest) return best;
  int32_t end = before_.back();
  for (int i = 0; i < kCandidates && end >= 0 && best.length < kLongest; ++i, end = before_[static_cast<size_t>(end)]) {
    int64_t length = kShortest;
    while (length < kLongest && length <= end && at(end - length) == at(size - 1 - length)) ++length;
    if (length > best.length) best = {length, end + 1};
  }
  return best;
}

std::vector<std::vector<Guess>> NgramProposer::propose(std::span<const ProposalAsk> asks) {
  std::vector<std::vector<Guess>> all;
  for (const ProposalAsk& ask : asks) {
    std::vector<Guess>& guesses = all.emplace_back();
    const NgramIndex::Match match = texts_[ask.sequence].find(ask.tokens);
    if (match.length == 0) continue;
    for (int64_t i = 0; i < ask.most; ++i) {
      const size_t from = static_cast<size_t>(match.next + i), known = ask.tokens.size();
      guesses.push_back({from < known ? ask.tokens[from] : guesses[from - known].token, kind_of(match.length + i)});
    }
  }
  return all;
}

}  // namespace tern
