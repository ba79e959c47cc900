#pragma once
// Runs tasks of `tern bench` and reports the results. Every task is timed in turn, round after round, so that the load of
// other programs affects all tasks alike. A share is the ratio of two rates of the same round.

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "apps/bench.h"
#include "base/json.h"

namespace tern {

/// What all rounds of a task gave.
struct BenchResult {
  BenchTask task;              // without its function
  std::vector<double> rates;   // by round
  std::vector<double> shares;  // by round: the rate as a share of the limit `against`; empty: the task is a limit
};
/// The median of values, the quartiles around it, and the highest value.
struct RoundSpread {
  double low = 0, median = 0, high = 0, best = 0;
  size_t count = 0;                                     // of values
  bool tells() const { return count >= kLeastRounds; }  // whether there are enough values to judge their spread
  /// Whether half of the values lie within 10 % of each other. If not, the figure is noise, and nothing follows from it.
  bool conclusive() const { return tells() && median > 0 && (high - low) / median <= 0.1; }
  static constexpr size_t kLeastRounds = 3;
};
RoundSpread spread(std::vector<double>);

/// Runs every task once per round, in turn, after a first run of each that does not count. Before each run it calls `told` with
/// the number of the round, which is 0 for the first runs too. If `told` returns false, nothing more is run, and the result has
/// only the complete rounds: none during the first runs. If several limits have one name, shares use the best rate of the round.
std::vector<BenchResult> run_rounds(const std::vector<BenchTask>&, int rounds,
                                    const std::function<bool(int round)>& told);

Json bench_json(const std::vector<BenchResult>&);
std::string bench_text(const std::vector<BenchResult>&);
/// The roofline as SVG: FLOP/s over FLOPs per byte, with the roofs that were measured here and a point for each task of work.
std::string bench_roofline(const std::vector<BenchResult>&);

}  // namespace tern
