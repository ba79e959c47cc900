#pragma once
// Which stages can start where. Lagrangian relaxation bounds the least time of a stage over layers [a, e) whose memory fits:
// a shortest path under time + lambda·bytes, less lambda·capacity; the best of several lambdas counts. From these bounds
// of single stages follow bounds of everything before and after each (stage, layer).

#include <cstdint>
#include <vector>

#include "planner/instance/stage_labels_impl.h"

namespace tern {

struct Windows;

/// Ends of a stage that have layers of the same forms before them, and therefore the same labels.
struct EndGroup {
  int sample = 0, length = 0;
  std::vector<int> ends;
  std::vector<TimeLimit> limit;  // (length): the largest of its ends
};
/// Lagrangian bounds of single stages; a table for each distinct rule.
class IntervalBounds {
 public:
  /// Leaves out stages with c·work above `limit`, and so all longer runs of layers.
  IntervalBounds(const Chain&, int64_t limit);

  /// The least of each cost of a stage over layers [a, e); `rest` is the least of work + rest, less the least of work.
  /// work == kNever: no stage fits, or all are above the limit.
  StageCost least(int stage, int a, int e) const;
  /// The most layers before e that a stage may hold.
  int longest(int stage, int e) const { return static_cast<int>(tables_[table_of_[stage]].work[e].size()); }
  const std::vector<double>& lambdas(int stage) const { return tables_[table_of_[stage]].lambdas; }
  LinkCost least_link(int stage, int e) const;  // after layer e − 1, which ends the stage
  /// Raises the bounds of each stage that `w`, restricted to `limit`, allows. The new bound of a cost is its least over the
  /// strategies that fit; if this is above what the limit allows, it is one more than the limit allows. The least is found by labels
  /// of time and bytes alone. If the labels exceed the budget, the old bounds stay.
  void tighten(const Windows& w, int64_t limit, int threads, const Budget&);

 private:
  struct Table {
    std::vector<double> lambdas;
    std::vector<std::vector<int64_t>> work;                 // (end)(layers − 1)
    std::vector<std::vector<int64_t>> work_and_rest, done;  // once tightened
  };
  void fill(Table&, int stage, int64_t limit) const;
  void choose_lambdas(Table&, int stage) const;
  void tighten_stage(Table&, int stage, StageLabels::Keep, const std::vector<EndGroup>&, const Budget&) const;
  double relaxed(int stage, double lambda, int a, int e) const;

  const Chain& chain_;
  std::vector<int> table_of_;
  std::vector<Table> tables_;
  // Prefix sums over layers of the least of each number.
  std::vector<int64_t> forward_, backward_, weight_, update_, begin_;
  std::vector<int64_t> bytes_[kTiers];
  std::vector<std::vector<LinkCost>> link_;  // by class
};

/// Bounds of what lies before and after stage i starting at layer a. Sizes (stages + 1)(layers + 1).
struct Windows {
  std::vector<std::vector<Suffix>> after;
  std::vector<std::vector<char>> after_reachable;
  std::vector<std::vector<Prefix>> before;
  int64_t bound = 0;  // no assignment that fits has a smaller value; kNever if none can fit

  Windows(const Chain&, const IntervalBounds&);
  /// Keeps the prefixes of assignments that may have a value of at most `limit`.
  void restrict(const Chain&, const IntervalBounds&, int64_t limit);
};

/// The most time that a stage over [a, e) may take for the whole to stay at or below `limit`. n: the least of what may
/// follow. n's round_trip already includes the link to it; for one forward, one backward n's span includes the link too.
TimeLimit time_limit(const Chain&, int stage, const Prefix& before, const Suffix& n, int64_t limit);

/// Groups the ends e for which next_reachable[e] holds. Each is the end of a stage that `w` lets begin; next[e] is what follows it.
std::vector<EndGroup> group_ends(const Chain&, const IntervalBounds&, const Windows& w, int stage,
                                 const std::vector<char>& next_reachable, const std::vector<Suffix>& next,
                                 int64_t limit);

}  // namespace tern
