#pragma once
// Runs tasks of `tern bench` round after round, and reports the results.

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "apps/bench.h"
#include "base/json.h"

namespace tern {

/// Rates of all rounds.
struct BenchResult {
  BenchTask task;              // without its function
  std::vector<double> rates;   // per round
  std::vector<double> shares;  // of `against`, per round; empty: a limit
};
/// Middle value and the quartiles around it.
struct RoundSpread {
  double low = 0, median = 0, high = 0, best = 0;
  size_t count = 0;
  bool tells() const { return count >= kLeastRounds; }  // whether there are enough values to judge their spread
  /// Whether half of the values lie within 10 % of each other: if not, the figure is noise, and nothing follows from it.
  bool conclusive() const { return tells() && median > 0 && (high - low) / median <= 0.1; }
  static constexpr size_t kLeastRounds = 3;
};
RoundSpread spread(std::vector<double>);

/// Runs every task once per round, in turn, after one warm-up each. `told` is called before each round; false stops
/// after it (the rounds so far count). Of limits with the same name the best of the round counts.
std::vector<BenchResult> run_rounds(const std::vector<BenchTask>&, int rounds,
                                    const std::function<bool(int round)>& told);

Json bench_json(const std::vector<BenchResult>&);
std::string bench_text(const std::vector<BenchResult>&);
/// Roofline: FLOP/s over FLOPs per byte, the roofs measured here and a point per work task. SVG.
std::string bench_roofline(const std::vector<BenchResult>&);

}  // namespace tern
