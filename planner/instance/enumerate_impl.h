#pragma once
// Simulates the assignments that a round left: every combination of stages with a bound at or below the limit, at each stage in the
// order of their bounds, until no bound is below the best makespan.

#include "planner/instance/suffix_search_impl.h"

namespace tern {

/// The best assignment so far.
struct Incumbent {
  bool found = false;
  Assignment assignment;
  int64_t value = kNever, makespan = kNever;
  int64_t simulated = 0;
};

/// Simulates all combinations with a bound ≤ limit and below the incumbent's value. done: all were simulated; too_many:
/// there were more than `simulations`; stopped: the budget ended it. The objective is the makespan; `round` was made
/// with Keep::times or Keep::all.
SearchEnd enumerate(const Chain&, const IntervalBounds&, const Round&, StageLabels::Keep, int64_t limit,
                    int64_t simulations, const Budget&, Incumbent&);

}  // namespace tern
