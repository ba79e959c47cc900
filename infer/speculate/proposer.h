#pragma once
// Proposers guess the tokens that follow. A guess changes how long a text takes, and not what it says (but see SpeculationSettings::fast).

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "infer/sampling.h"

namespace tern {

/// The number of classes by which a proposer tells likely guesses from others. The acceptance of each class is measured.
inline constexpr int kGuessClasses = 8;

struct Guess {
  int32_t token = 0;
  uint8_t kind = 0;  // its class, < kGuessClasses
  Odds odds = {};    // by which it was drawn, if ProposalAsk::with_odds asked for a drawn guess
};

/// What is known of a sequence that is about to draw its next token.
struct ProposalAsk {
  uint64_t sequence = 0;
  std::span<const int32_t> tokens;  // prompt and generated; it only grows
  int64_t most = 0;                 // the most guesses that are wanted, at least 1
  const SamplingOptions* sampling = nullptr;
  int64_t num_generated = 0;  // so many of `tokens`, the last ones, were generated
  uint64_t stream = 0;        // the stream of its draws (sample_token's `sequence`)
  // Guesses are to be drawn by random numbers of their own, and to come with their odds (draw_guess).
  bool with_odds = false;
};

/// What guesses tokens.
class Proposer {
 public:
  virtual ~Proposer() = default;
  /// For each ask up to `most` tokens that may follow, in order; fewer or none if it has no guess.
  virtual std::vector<std::vector<Guess>> propose(std::span<const ProposalAsk>) = 0;
  /// Called when the sequence has ended.
  virtual void forget(uint64_t sequence) = 0;
  /// Whether proposing takes time that matters. Such a proposer is asked only if its guesses may save more time than they cost.
  virtual bool costs_time() const { return false; }
  /// For a proposer that costs time: the number of tokens of this text that it has to compute before the first guess, the last token included; 0:
  /// it does not guess for this text.
  virtual int64_t unread(const ProposalAsk&) const { return 0; }
  /// For a proposer that costs time: the seconds that so many tokens of all texts together took before; 0: not known.
  virtual double compute_s(int64_t /*tokens*/) const { return 0; }
};

}  // namespace tern
