#pragma once
// How many samples of one prompt are worth the time that they take.

#include <cstdint>

namespace tern {

/// The model: of a share `ceiling` of questions, each sample is right with probability `right`, independently of the others; of the other
/// questions no sample is right.
/// Source  the Test-Time Scaling Performance Model (TTSPM), F(N) = F_max·(1 − (1 − p)^N) (read in a digest).
struct SampleOdds {
  double right = 0;    // p, 0 < p < 1
  double ceiling = 1;  // F_max, 0 < F_max <= 1
};

/// F(N): the chance that at least one of `samples` samples is right.
double chance_of_a_right_one(const SampleOdds&, int64_t samples);

/// The smallest number N ≥ 1 of samples such that one more would add less than `least_gain` > 0 to that chance. One more sample adds
/// F_max·p·(1 − p)^N, so N = ⌈ln(least_gain / (F_max·p)) / ln(1 − p)⌉ (our reading).
int64_t samples_worth_their_time(const SampleOdds&, double least_gain);

}  // namespace tern
