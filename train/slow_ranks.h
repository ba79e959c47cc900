#pragma once
// Tells of a rank that computes slower than those that do the same work, and for which all others wait at each sum: slow, and not for its
// messages. A rank that hangs, and ranks that wait for each other, the store tells of (comm/store.h).
// Source: C4D's verdicts, Dong et al. 2024, arXiv:2406.04594.

#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "program/trace.h"

namespace tern {

/// Seconds of a step's passes, without what was exchanged between them.
double pass_seconds(std::span<const TraceEvent>);

/// Watches the passes of ten steps at a time. A rank is slow if they took it half as long again as the median of its like, three tenths
/// longer in nine of the ten, and a tenth of a second longer in all. It is told of once, and once more if it was as fast as the others between.
class SlowRanks {
 public:
  /// So many ranks that follow one another compute the same list: the replicas of a stage.
  explicit SlowRanks(int alike) : alike_(alike) {}
  /// A step's pass_seconds of all ranks. What there is to tell of it.
  std::optional<std::string> add(std::span<const double> seconds);

 private:
  int alike_;
  std::deque<std::vector<double>> steps_;
  std::vector<bool> told_;
};

}  // namespace tern
