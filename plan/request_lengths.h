#pragma once
// Requests of unlike length to a server: their averages, and the room that their keys and values nearly never exceed.

#include <cstdint>
#include <utility>
#include <vector>

#include "plan/sequence_lengths.h"

namespace tern {

/// A group of prompts of neighbouring lengths: their share of all prompts and their mean length. Four groups cover a
/// doubling of the length.
struct PromptGroup {
  int64_t tokens = 0;
  double share = 0;
};

/// Lengths of prompts and answers, drawn independently of each other. A server always has one request of each user in
/// flight, so at any moment an answer that is twice as long is in flight twice as often.
class RequestLengths {
 public:
  /// The figures called high hold for this share of moments, or of prompts.
  static constexpr double kHigh = 0.99;
  RequestLengths(SequenceLengths prompts, SequenceLengths answers);
  const SequenceLengths& prompts() const { return prompts_; }
  const SequenceLengths& answers() const { return answers_; }

  int64_t high_prompt() const { return prompts_.quantile(kHigh); }
  const std::vector<PromptGroup>& prompt_groups() const { return groups_; }
  /// Tokens before a decoded one (the prompt and what was written so far), on average over decoded tokens: E[p] +
  /// E[a²]/2E[a].
  double decode_context() const;
  /// The whole context of a request in flight, on average: E[p] + E[a²]/E[a].
  double mean_context() const;

  /// Room for the keys and values of `users` requests in flight, in tokens of whole pages: with probability kHigh their
  /// whole contexts do not exceed it. It is the smaller of two bounds. Boole: users times the length that one context
  /// exceeds with probability (1 − kHigh)/u, where u is users rounded up to a power of two. Chernoff: min over t > 0 of
  /// (users · ln E[e^(t·l)] − ln(1 − kHigh))/t, where l is a context and the rest of its last page. Lengths within a
  /// hundredth of each other count as the longer one. The room rises with users.
  int64_t room(int64_t users, int64_t page) const;

 private:
  SequenceLengths prompts_, answers_;
  std::vector<PromptGroup> groups_;
  std::vector<int64_t> exceeded_;                    // [i]: what a context exceeds with probability (1 − kHigh)/2^i
  std::vector<std::pair<double, double>> exponent_;  // t, ln E[e^(t·context)]
  double mean_answer_in_flight_ = 0;
};

}  // namespace tern
