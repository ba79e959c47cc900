#pragma once
// The smallest change that makes a given configuration fit, found by planning again with some of its axes free.

#include <cstdint>
#include <string>
#include <vector>

#include "planner/outer/plan_model.h"

namespace tern {

/// A change that makes a configuration fit.
struct SmallestChange {
  int axes = 1;         // number of axes that change
  std::string words;    // "recompute=none → full"
  std::string pins;     // for --fix
  std::string offload;  // for --offload: "states", "activations" or "all"; "": as it was
  int64_t step_ps = 0;
};
/// The changes of one axis, then those of two, that make a configuration fit; each of the two groups is sorted, the fastest
/// step first. A change of two axes is listed only if its step is faster than that of every change of one. The other axes
/// stay as `pinned` has them; the changed ones take the values of the fastest plan that fits. `base`: the space without
/// pins. Where `base` keeps states or activations on the device, moving them off it is a change too, which `words` and
/// `offload` say. At most 120 searches are made, each until its bound is proven or its effort spent; the request's `stop`
/// and `seconds` end them too.
std::vector<SmallestChange> smallest_changes(const ModelSpec&, const Cluster&, const PlanRequest&,
                                             const SearchSpace& base, const PinnedAxes& pinned);

}  // namespace tern
