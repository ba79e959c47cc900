#pragma once
// The smallest change that makes a given configuration fit: planned anew with some of its axes free.

#include <cstdint>
#include <string>
#include <vector>

#include "planner/outer/plan_model.h"

namespace tern {

/// What to let go of a configuration that does not fit.
struct SmallestChange {
  int axes = 1;         // changed
  std::string words;    // "recompute=none → full"
  std::string pins;     // for --fix
  std::string offload;  // for --offload: "states", "activations" or "all"; "": as it was
  int64_t step_ps = 0;
};
/// One axis at a time, then two: the others stay as `pinned` has them, the changed ones take any value with which a
/// plan fits, the fastest of them. `base`: the space without pins. Homes of states and activations that `base`
/// keeps on the device are let go of too: words and `offload` then say so. Fastest first; those of two axes only where
/// they beat every single one. Counts end it: at most 120 searches, each until its bound is proven or its effort spent;
/// `stop` and seconds too.
std::vector<SmallestChange> smallest_changes(const ModelSpec&, const Cluster&, const PlanRequest&,
                                             const SearchSpace& base, const PinnedAxes& pinned);

}  // namespace tern
