#pragma once
// What sequences of unlike length are to training: how they fill windows of --seq tokens, what attention costs there,
// what of it is real, and what the slowest of several data ranks has more than the mean.

#include <cstdint>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "plan/sequence_lengths.h"
#include "plan/strategy.h"
#include "spec/model_spec.h"

namespace tern {

/// The attended pairs of the rank that has most of them in a step, expected, over those of a rank on average.
struct SlowestRank {
  double factor = 1;  // 1: one rank, or windows that are all alike
  double error = 0;   // of the factor, one standard deviation
  int64_t steps = 0;  // drawn; 0: known without
};
inline constexpr uint64_t kSlowestRankSeed = 1;

/// Windows of `seq` tokens.
/// packed  Sequences in random order, laid end to end and cut; attention inside each
///         piece, as train/feed.h has it. With g the greatest common divisor of seq
///         and all lengths, a sequence begins at each multiple of g in a window
///         equally often (a random walk on the multiples of g, whatever the distribution), so means are exact sums over
///         the pieces: for a sequence of l = l'·g, windows of S = S'·g, G(m) = Σ_{k ≤ m} pairs(k·g),
///             Σ over the S' places = (S' − l' + 1)·pairs(l) + 2·G(l' − 1)        where l ≤ S
///                                  = G(S') + G(S' − 1) + (l' − S')·pairs(S)      else;
///         of a window's tokens l·count/Σ belong to such sequences, each window-full of them with that · g/l pairs.
/// padded  One sequence to a window, filled up or cut to seq; padding is computed like all else.
/// Source  ours: renewal theory for where sequences begin.
class WindowMix {
 public:
  WindowMix(SequenceLengths, Batching);
  const SequenceLengths& lengths() const { return lengths_; }
  Batching batching() const { return batching_; }

  double real_tokens(int64_t seq) const;                        // of a window, on average
  double pairs(const AttentionSpec&, int64_t seq) const;        // computed in a window, on average, per head
  double real_pairs(const AttentionSpec&, int64_t seq) const;   // of these, those inside a sequence
  int64_t most_pairs(const AttentionSpec&, int64_t seq) const;  // of any window, as lengths allow
  double cut_tokens(int64_t seq) const;       // share of all tokens that no window has (padded: what is too long)
  double split_sequences(int64_t seq) const;  // share of the sequences that lie in more than one window (packed)

  /// Of `ranks` ranks with `windows` windows each, drawn independently of each other. By seeded sampling: a stretch of windows
  /// once, sums of them for each rank and step after it (bootstrap). Order: the same for any threads and calls before.
  SlowestRank slowest(const AttentionSpec&, int64_t seq, int64_t ranks, int64_t windows) const;

 private:
  using Kind = std::tuple<bool, int64_t, int64_t>;  // causal, window, seq
  std::vector<double> sample(const Kind&) const;    // pairs of windows, one after another
  double mean_pairs(const AttentionSpec&, int64_t seq) const;
  int64_t step_of(int64_t seq) const;  // g
  SequenceLengths lengths_;
  Batching batching_;
  mutable std::mutex mutex_;  // of what was asked for before
  mutable std::map<Kind, double> means_;
  // Sums of 1, 2, 4 … windows.
  mutable std::map<Kind, std::vector<std::vector<double>>> sums_;
  mutable std::map<std::tuple<Kind, int64_t, int64_t>, SlowestRank> known_;
};

/// Of a job's windows; as if every sequence were `seq` long where it has no lengths. Errors: TERN_CHECK, a job that was
/// read from a file, without its distribution.
double window_pairs(const TrainJob&, const AttentionSpec&);  // that a rank computes, on average
double step_tokens(const TrainJob&);                         // real ones
/// Attended pairs in a micro-batch of the slowest of `ranks`, which wait for each other after every `windows` windows.
int64_t micro_batch_pairs(const TrainJob&, const AttentionSpec&, int64_t micro_batch, int64_t ranks, int64_t windows);
/// spec/unit_cost.h's, of real tokens and the pairs inside sequences.
double training_flops_per_token(const ModelSpec&, const TrainJob&);

}  // namespace tern
