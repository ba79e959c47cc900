#pragma once
// The result of the search over outer choices, and the plan that is made from it.

#include <atomic>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "planner/outer/best_pool_impl.h"
#include "planner/outer/candidates_impl.h"

namespace tern {

/// The result of the search over outer choices. Times in ps. `bounds` has one bound for each candidate; kNever: no assignment of
/// the candidate fits.
struct OuterOutcome {
  bool found = false, interrupted = false;
  int best = -1;
  Assignment assignment;
  int64_t makespan = 0, model = 0, model_bound = 0, bound = 0;
  std::vector<int64_t> bounds;
  std::vector<std::pair<int, int64_t>> plans;  // (candidate, makespan) of every plan that was seen
  ChoiceCounts counts;
  int no_fit_index = -1;
  NoFit no_fit;
  int64_t searches = 0, simulated = 0, restricted_open = 0, work = 0;
  int64_t bounded_open = 0;  // choices of SpaceOfChoices::bounded that could be faster
  int64_t not_run = 0;       // choices for which the framework runs no strategy
  int64_t orders_open = 0;   // candidates that are any_order and could be faster
  bool improved = true;      // no move of a single layer makes the assignment faster, or layers=even allows no moves
  double seconds = 0;
  PoolFamily pool;
};
/// Fills the answer's plan, shape and times. If look_around (around_plan_impl.h) finds a faster plan, it becomes the answer's plan.
void make_plan(const SpaceOfChoices&, const Cluster&, const PlanRequest&, OuterOutcome, PlanAnswer&);
/// "rtx3090 × 2, rtx4080m × 1": the number of stages on each type of node; types in the order of their first stages.
std::string nodes_of(const SpaceOfChoices&, const Candidate&);
/// If nothing fits: the choice that lacks the fewest bytes.
NoFit make_no_fit(const SpaceOfChoices&, const OuterOutcome&);

}  // namespace tern
