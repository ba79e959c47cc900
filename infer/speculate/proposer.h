#pragma once
// Proposers guess the tokens that follow. A guess changes how long a text takes, never what it says.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "infer/sampling.h"

namespace tern {

/// Classes of guesses, by which a proposer tells likely ones from others; the acceptance of each class is measured.
inline constexpr int kGuessClasses = 8;

struct Guess {
  int32_t token = 0;
  uint8_t kind = 0;  // < kGuessClasses
  Odds odds = {};    // that it was drawn from, where that was asked for and it was drawn
};

/// What is known of a sequence that is about to draw its next token.
struct ProposalAsk {
  uint64_t sequence = 0;
  std::span<const int32_t> tokens;  // prompt and generated; it only grows
  int64_t most = 0;                 // guesses wanted, at least 1
  const SamplingOptions* sampling = nullptr;
  int64_t num_generated = 0;  // the last of `tokens`
  uint64_t stream = 0;        // that its draws are keyed by (sample_token)
  bool with_odds = false;     // guesses that are drawn: by random numbers of their own, and say what from (draw_guess)
};

class Proposer {
 public:
  virtual ~Proposer() = default;
  /// For each ask up to `most` tokens that may follow, in order; fewer or none where it has no idea.
  virtual std::vector<std::vector<Guess>> propose(std::span<const ProposalAsk>) = 0;
  /// The sequence has ended.
  virtual void forget(uint64_t sequence) = 0;
  /// Whether proposing takes time that matters; such a proposer is asked only where its guesses may pay.
  virtual bool costs_time() const { return false; }
  /// Of one that costs time: tokens of this text that it has to compute before the first guess, its last one among them;
  /// 0: it does not guess this text.
  virtual int64_t unread(const ProposalAsk&) const { return 0; }
  /// Seconds to compute so many tokens of all texts together, by what was seen of it; 0: nothing was.
  virtual double compute_s(int64_t /*tokens*/) const { return 0; }
};

}  // namespace tern
