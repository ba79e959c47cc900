#pragma once
// Plans of one outer choice that cost a few simulations: upper bounds for the search.

#include "planner/outer/candidates_impl.h"

namespace tern {

/// Layers evenly over the virtual stages by time, one strategy everywhere, the fastest that fits. An upper bound that
/// costs a few simulations. Nothing: none fits.
struct UniformPlan {
  bool found = false;
  Assignment assignment;
  int64_t makespan = 0;
};
UniformPlan uniform_plan(const SpaceOfChoices&, const Candidate&, const BuiltInstance&);
/// The first that fits, strategies of least bytes before others. `left`: of PlanRequest::any_fit_within; falls.
UniformPlan first_fit(const SpaceOfChoices&, const Candidate&, BuiltInstance&, int64_t& left);
/// The same over unlike devices: each stage takes layers until its time is up or its memory full.
UniformPlan mixed_plan(const SpaceOfChoices&, const Candidate&, const BuiltInstance&);
/// Every layer as fast as it can be; where a device lacks bytes, its layers one after the other take smaller
/// strategies. Layers evenly by time, and chunk by chunk in equal numbers. Nothing: none fits below `upper_bound`.
UniformPlan repaired_plan(const SpaceOfChoices&, const Candidate&, const BuiltInstance&, int64_t upper_bound);
/// Of a space with PinnedAxes::even: the best of its assignments, of which there is one to a strategy, and all of them
/// are priced. If none fits, the one that lacks least (kNever: its framework
/// runs none).
struct EvenPlan {
  UniformPlan plan;
  int64_t missing_bytes = 0;  // if none fits
  Tier tier = Tier::device;
  int rank = 0;
};
EvenPlan even_plan(const SpaceOfChoices&, const Candidate&, const Instance&);

}  // namespace tern
