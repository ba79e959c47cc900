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
/// Spreads the layers evenly over the virtual stages by time and gives all of them one strategy, the fastest that fits.
/// found is false if none fits.
UniformPlan uniform_plan(const SpaceOfChoices&, const Candidate&, const BuiltInstance&);
/// The first such plan that fits, trying strategies of least bytes first. Takes its work off `left`
/// (PlanRequest::any_fit_within).
UniformPlan first_fit(const SpaceOfChoices&, const Candidate&, BuiltInstance&, int64_t& left);
/// A plan over unlike devices: each stage takes layers until its share of the time or its memory is used up.
UniformPlan mixed_plan(const SpaceOfChoices&, const Candidate&, const BuiltInstance&);
/// Gives every layer its fastest strategy; where a device lacks bytes, its layers take smaller ones, one after the
/// other. Tries layers spread evenly by time, and chunks of equal numbers. found is false where none fits below
/// `upper_bound`.
UniformPlan repaired_plan(const SpaceOfChoices&, const Candidate&, const BuiltInstance&, int64_t upper_bound);
/// A plan of layers=even; or, if none fits, what is missing in the assignment that needs the fewest bytes more.
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
