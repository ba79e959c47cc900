#pragma once
// Guesses from the text itself: what followed where its last tokens stood before. Source: prompt look-up decoding
// (Saxena 2023; recalled).

#include <unordered_map>

#include "infer/speculate/proposer.h"

namespace tern {

/// Finds where the last tokens of a growing text stood before.
class NgramIndex {
 public:
  static constexpr int64_t kShortest = 2, kLongest = 32;  // tokens of a match
  struct Match {
    int64_t length = 0;  // 0: none
    int64_t next = 0;    // where the token behind it stands
  };
  /// The longest match of the text's end, the latest of equal ones, among the kCandidates latest places where its last
  /// kShortest tokens stood. `tokens` begin with those of the call before.
  Match find(std::span<const int32_t> tokens);

 private:
  static constexpr int kCandidates = 64;
  std::unordered_map<uint64_t, int32_t> last_;  // by kShortest tokens: where they ended last
  std::vector<int32_t> before_;                 // by end: where the same tokens ended before; -1: nowhere
};

class NgramProposer : public Proposer {
 public:
  /// Where a match reaches the end of the text, the guesses themselves continue it, so that a repetition is guessed to go on.
  std::vector<std::vector<Guess>> propose(std::span<const ProposalAsk>) override;
  void forget(uint64_t sequence) override { texts_.erase(sequence); }

 private:
  std::unordered_map<uint64_t, NgramIndex> texts_;
};

}  // namespace tern
