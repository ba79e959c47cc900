#pragma once
// Who guesses the tokens that follow. A guess decides how long a text takes, never what it says.

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "infer/sampling.h"

namespace tern {

/// How likely a guess is, in the proposer's own classes; what they are worth is measured.
inline constexpr int kGuessClasses = 8;

struct Guess {
  int32_t token = 0;
  uint8_t kind = 0;  // < kGuessClasses
};

/// What is known of a sequence that is about to draw its next token.
struct ProposalAsk {
  uint64_t sequence = 0;
  std::span<const int32_t> tokens;  // prompt and generated; it only grows
  int64_t most = 0;                 // guesses wanted, at least 1
  const SamplingOptions* sampling = nullptr;
  int64_t num_generated = 0;  // the last of `tokens`
  uint64_t stream = 0;        // that its draws are keyed by (sample_token)
};

class Proposer {
 public:
  virtual ~Proposer() = default;
  /// For each ask up to `most` tokens that may follow, in order; fewer or none where it has no idea.
  virtual std::vector<std::vector<Guess>> propose(std::span<const ProposalAsk>) = 0;
  /// The sequence has ended.
  virtual void forget(uint64_t sequence) = 0;
  /// Whether a guess takes time that is worth counting, so that it is asked only where its guesses may pay.
  virtual bool costs_time() const { return false; }
};

}  // namespace tern
