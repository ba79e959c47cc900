#pragma once
// Plans of one outer choice that cost a few simulations: upper bounds for the search.

#include "planner/outer/build_instance_impl.h"
#include "planner/outer/candidates_impl.h"

namespace tern {

/// Spreads the layers evenly over the virtual stages by time and gives all of them one strategy, the fastest that fits.
/// found is false where none fits.
struct UniformPlan {
  bool found = false;
  Assignment assignment;
  int64_t makespan = 0;
};
UniformPlan uniform_plan(const SpaceOfChoices&, const Candidate&, const BuiltInstance&);
/// The first such plan that fits, strategies of least bytes first. Takes its work off `left` (any_fit_within).
UniformPlan first_fit(const SpaceOfChoices&, const Candidate&, BuiltInstance&, int64_t& left);
/// The same over unlike devices: each stage takes layers until its time is up or its memory is full.
UniformPlan mixed_plan(const SpaceOfChoices&, const Candidate&, const BuiltInstance&);
/// Gives every layer its fastest strategy; where a device lacks bytes, its layers take smaller ones, one after the other.
/// Tries layers spread evenly by time, and chunks of equal numbers. found is false where none fits below `upper_bound`.
UniformPlan repaired_plan(const SpaceOfChoices&, const Candidate&, const BuiltInstance&, int64_t upper_bound);
/// For a space with PinnedAxes::even: prices the one assignment of each strategy and returns the fastest. If none fits,
/// the figures are those of the assignment that lacks least; missing_bytes is kNever where the framework runs none of
/// the strategies.
struct EvenPlan {
  UniformPlan plan;
  int64_t missing_bytes = 0;  // if none fits
  Tier tier = Tier::device;
  int rank = 0;
};
EvenPlan even_plan(const SpaceOfChoices&, const Candidate&, const Instance&);

}  // namespace tern
