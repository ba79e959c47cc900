#pragma once
// How well predicted times of runs agree with the measured ones: errors, pairs in order, regret of the best pick.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/run_set.h"

namespace tern {

/// How far predicted times lie from the measured ones. Of fewer than 20 rows all lie from least_ratio to most_ratio.
struct PredictionErrors {
  size_t rows = 0;
  double median = 0, mean = 0, ninth = 0, most = 0;  // of |predicted/measured − 1|; ninth: nine in ten are below
  double least_ratio = 1,
         most_ratio = 1;  // of measured/predicted: 19 in 20 rows have at least the first, 19 in 20 at most the second
};
/// Shapes  predicted: seconds, as rows.
PredictionErrors errors_of(const RunSet&, std::span<const size_t> rows, std::span<const double> predicted);

/// Pairs of runs of one job (job_words), and how many of them are predicted in order.
struct Ordered {
  int64_t pairs = 0, right = 0;
  std::vector<std::pair<size_t, size_t>> wrong;  // rows
  double share() const { return pairs ? static_cast<double>(right) / static_cast<double>(pairs) : 1; }
};
/// Counts pairs whose times are more than `apart` (a share) apart; a pair predicted as equal is not in order. Order:
/// the counts do not depend on the order of the rows.
Ordered ordered(const RunSet&, std::span<const size_t> rows, std::span<const double> predicted, double apart = 0.05);

/// What a job would lose by the run that was predicted fastest: its measured time over the least measured time, minus
/// 1. Of runs predicted as equally fast the slowest counts.
struct Regret {
  std::string job;
  double regret = 0;
};
/// The regret of each job with at least two rows.
std::vector<Regret> regrets(const RunSet&, std::span<const size_t> rows, std::span<const double> predicted);

}  // namespace tern
