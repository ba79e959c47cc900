#pragma once
// Training on sequences of unlike lengths: how they fill windows of --seq tokens, how many pairs attention computes in
// a window and how many of these are real, and how much more than the mean the slowest of several data ranks computes.

#include <cstdint>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "plan/sequence_lengths.h"
#include "plan/train_job.h"
#include "spec/model_spec.h"

namespace tern {

/// Expected attended pairs of a step's slowest rank, the rank with most pairs, divided by those of an average rank.
struct SlowestRank {
  double factor = 1;  // 1: one rank, or windows that are all alike
  double error = 0;   // of the factor, one standard deviation
  int64_t steps = 0;  // steps that were drawn; 0: the factor needs no draws
};
inline constexpr uint64_t kSlowestRankSeed = 1;

/// How sequences fill windows of `seq` tokens.
/// packed  Sequences in random order, laid end to end and cut into windows; attention stays
///         inside each piece, as in train/feed.h. With g the greatest common divisor of seq
///         and all lengths, a sequence begins at each multiple of g in a window
///         equally often (a random walk on the multiples of g, whatever the distribution), so means are exact sums over
///         the pieces. Take a sequence of l = l'·g tokens in windows of S = S'·g tokens, and G(m) = Σ_{k ≤ m} pairs(k·g). Add up the
///         pairs of all pieces of the sequence, also of those in later windows, over the S' places where it may begin. The sum is
///             (S' − l' + 1)·pairs(l) + 2·G(l' − 1)        where l ≤ S
///             G(S') + G(S' − 1) + (l' − S')·pairs(S)      else;
///         sequences of length l have a share l·count/Σ(l·count) of all tokens, and windows filled with them alone would
///         have on average g/l times this sum of pairs.
/// padded  One sequence to a window, filled up or cut to seq; padding is computed like real tokens.
/// Source  ours: renewal theory for where sequences begin.
class WindowMix {
 public:
  WindowMix(SequenceLengths, Batching);
  const SequenceLengths& lengths() const { return lengths_; }
  Batching batching() const { return batching_; }

  double real_tokens(int64_t seq) const;                        // of a window, on average
  double pairs(const AttentionSpec&, int64_t seq) const;        // computed in a window, on average, per head
  double real_pairs(const AttentionSpec&, int64_t seq) const;   // of these, the pairs of real tokens
  int64_t most_pairs(const AttentionSpec&, int64_t seq) const;  // the most in a window that these lengths allow
  double cut_tokens(
      int64_t seq) const;  // share of all tokens that are in no window (padded: the ends of sequences longer
                           // than a window)
  double split_sequences(int64_t seq) const;  // share of the sequences that lie in more than one window (packed)

  /// The slowest of `ranks` ranks, each with `windows` windows drawn independently. Computed by seeded sampling: one
  /// stretch of windows is drawn, and each rank's sum in each step is resampled from this stretch (bootstrap). Order:
  /// the result depends neither on the number of threads nor on earlier calls.
  SlowestRank slowest(const AttentionSpec&, int64_t seq, int64_t ranks, int64_t windows) const;

 private:
  using Kind = std::tuple<bool, int64_t, int64_t>;  // causal, window, seq
  std::vector<double> sample(const Kind&) const;    // pairs of windows, one after another
  double mean_pairs(const AttentionSpec&, int64_t seq) const;
  int64_t step_of(int64_t seq) const;  // g
  SequenceLengths lengths_;
  Batching batching_;
  mutable std::mutex mutex_;  // guards the three caches below
  mutable std::map<Kind, double> means_;
  // Sums of 1, 2, 4 … windows.
  mutable std::map<Kind, std::vector<std::vector<double>>> sums_;
  mutable std::map<std::tuple<Kind, int64_t, int64_t>, SlowestRank> known_;
};

}  // namespace tern
