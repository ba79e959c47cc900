#pragma once
// Plans of one outer choice that cost a few simulations: upper bounds for the search.

#include "planner/outer/build_instance_impl.h"
#include "planner/outer/candidates_impl.h"

namespace tern {

/// A plan of one outer choice; makespan in ps.
struct UniformPlan {
  bool found = false;
  Assignment assignment;
  int64_t makespan = 0;
};
/// Spreads the layers evenly over the virtual stages by time and gives all layers one strategy, the fastest that fits.
/// found is false if none fits.
UniformPlan uniform_plan(const SpaceOfChoices&, const Candidate&, const BuiltInstance&);
/// Over unlike devices: mixed_plan. With layers=even: even_plan. Else: tries strategies of fewer bytes first, one for all layers. Subtracts the
/// work from `left` (PlanRequest::any_fit_within).
UniformPlan first_fit(const SpaceOfChoices&, const Candidate&, BuiltInstance&, int64_t& left);
/// A plan over unlike devices: each stage takes layers until the stage's share of the time or of the memory is used up.
UniformPlan mixed_plan(const SpaceOfChoices&, const Candidate&, const BuiltInstance&);
/// Over unlike devices: mixed_plan. Otherwise every layer has the fastest strategy; if a device lacks bytes, layer after layer takes a
/// strategy of fewer bytes. Stages are cut so that times are even and, with several chunks, also so that numbers of layers are even.
/// found is false if no such plan with a makespan below `upper_bound` fits.
UniformPlan repaired_plan(const SpaceOfChoices&, const Candidate&, const BuiltInstance&, int64_t upper_bound);
/// A plan of layers=even. If no plan fits: the fewest bytes that an assignment lacks, and where the bytes are missing.
struct EvenPlan {
  UniformPlan plan;
  int64_t missing_bytes = 0;  // if none fits
  Tier tier = Tier::device;
  int rank = 0;
};
/// For a space with PinnedAxes::even: prices the one assignment of each strategy and returns the fastest that fits.
/// missing_bytes is kNever if the framework runs none of the strategies.
EvenPlan even_plan(const SpaceOfChoices&, const Candidate&, const Instance&);

}  // namespace tern
