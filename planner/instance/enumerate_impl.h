#pragma once
// Simulates what a round left: every combination of stages with a bound at or below the limit, the best bound first at
// each stage, until no bound is left below the best makespan.

#include "planner/instance/suffix_search_impl.h"

namespace tern {

struct Incumbent {
  bool found = false;
  Assignment assignment;
  int64_t value = kNever, makespan = kNever;
  int64_t simulated = 0;
};

/// Whether all combinations with bound ≤ limit and < incumbent were looked at; false: out of simulations, or stopped.
/// Objective  the makespan; `round` kept elements (Keep::times or Keep::all).
SearchEnd enumerate(const Chain&, const IntervalBounds&, const Round&, StageLabels::Keep, int64_t limit,
                    int64_t simulations, const Budget&, Incumbent&);

/// The least bytes that, added to every tier of every stage, let some assignment keep the stages' rules.
struct MemoryNeed {
  int64_t missing = 0;  // ≤ 0: fits
  int stage = 0;
  Tier tier = Tier::device;
  Assignment assignment;  // one that needs no more; empty if the budget's time was over before it was known
};
MemoryNeed memory_need(const Chain&, const Budget&);

}  // namespace tern
