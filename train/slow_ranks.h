#pragma once
// Tells of a rank that computes slower than the ranks with the same work, so that all others wait for it at each sum. The time of messages
// does not count. The store (comm/store.h) tells of a rank that hangs, and of ranks that wait for each other.
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

/// Watches the passes of the last ten steps. A rank is slow if, compared with the median of the ranks with the same work, it
/// took at least 1.5 times as long for the ten together, more than 1.3 times as long in at least nine of them, and at least a
/// tenth of a second longer in all. It is told of again only if in between it took less than 1.2 times as long for ten together.
class SlowRanks {
 public:
  /// `alike`: this many consecutive ranks run the same list of instructions. They are the replicas at one device of the pipeline.
  explicit SlowRanks(int alike) : alike_(alike) {}
  /// Takes the pass_seconds of all ranks in a step. Returns a sentence about a slow rank; none: there is nothing to tell.
  std::optional<std::string> add(std::span<const double> seconds);

 private:
  int alike_;
  std::deque<std::vector<double>> steps_;
  std::vector<bool> told_;
};

}  // namespace tern
