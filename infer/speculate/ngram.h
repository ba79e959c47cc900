#pragma once
// Guesses from the text itself: if its last tokens occurred before, the tokens that followed them there. Source: prompt look-up decoding
// (Saxena 2023; recalled).

#include <unordered_map>

#include "infer/speculate/proposer.h"

namespace tern {

/// Finds where the last tokens of a growing text occurred before.
class NgramIndex {
 public:
  static constexpr int64_t kShortest = 2, kLongest = 32;  // tokens of a match
  struct Match {
    int64_t length = 0;  // in tokens; 0: there is no match
    int64_t next = 0;    // the position of the token after it
  };
  /// The longest match of the text's end among the kCandidates latest places where its last kShortest tokens occurred; of equal matches the
  /// latest. `tokens` must begin with the tokens of the call before.
  Match find(std::span<const int32_t> tokens);

 private:
  static constexpr int kCandidates = 64;
  std::unordered_map<uint64_t, int32_t> last_;  // by kShortest tokens: where they ended last
  std::vector<int32_t> before_;                 // by end: where the same tokens ended before; -1: nowhere
};

/// Proposes the tokens after the longest match.
class NgramProposer : public Proposer {
 public:
  /// If the tokens after a match reach the end of the text, the match continues with the guesses themselves: a repetition is guessed to go on.
  std::vector<std::vector<Guess>> propose(std::span<const ProposalAsk>) override;
  void forget(uint64_t sequence) override { texts_.erase(sequence); }

 private:
  std::unordered_map<uint64_t, NgramIndex> texts_;
};

}  // namespace tern
