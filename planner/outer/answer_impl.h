#pragma once
// What the outer loop leaves, and the plan that is made of it.

#include <atomic>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "planner/outer/candidates_impl.h"

namespace tern {

struct Priced;  // planner/instance/price.h

/// The best pipelines of unlike shape side by side (pipeline_pool.h) with one tensor degree and micro-batch, ZeRO 0 and
/// 1F1B, if they are below `upper_bound`.
struct PoolFamily {
  bool found = false;
  bool complete = true;  // no degree was left out, and it was not late
  std::string choice;
  int64_t makespan = 0, bound = 0;
  int64_t columns = 0, searched = 0;
};
PoolFamily best_pool(const SpaceOfChoices&, const Cluster&, const PlanRequest&, int64_t upper_bound,
                     const std::function<bool()>& late);

/// What the outer loop leaves. `bounds` has one for every candidate, kNever where nothing of it fits.
struct OuterOutcome {
  bool found = false, interrupted = false;
  int best = -1;
  Assignment assignment;
  int64_t makespan = 0, model = 0, model_bound = 0, bound = 0;
  std::vector<int64_t> bounds;
  std::vector<std::pair<int, int64_t>> plans;  // candidate, makespan: all that were seen
  ChoiceCounts counts;
  int no_fit_index = -1;
  NoFit no_fit;
  int64_t searches = 0, simulated = 0, restricted_open = 0, work = 0;
  int64_t bounded_open = 0;  // of SpaceOfChoices::bounded, that could be faster
  int64_t not_run = 0;       // choices for which the framework runs no strategy
  int64_t orders_open = 0;   // candidates of any_order that could be faster
  bool improved = true;      // no single-layer move makes the assignment faster, or layers=even allows none
  double seconds = 0;
  PoolFamily pool;
};
/// Fills the answer's plan, shape and times. If the look around the best plan finds a faster one, it takes its place.
void make_plan(const SpaceOfChoices&, const Cluster&, const PlanRequest&, OuterOutcome, PlanAnswer&);
/// "rtx3090 × 2, rtx4080m × 1": stages by type of node, in the order of the first of each.
std::string nodes_of(const SpaceOfChoices&, const Candidate&);
/// What a look around the best plan gives. `families`: for each feature the values that the plan does not have, the
/// least bounds first, each with its best plan that was seen; then the choices one step from the plan (micro-batch
/// halved or doubled, another schedule, a factor of two from one axis to another) that come within 5 % of its step
/// time.
struct FasterPlan {
  int candidate = -1;  // none
  Assignment assignment;
  int64_t makespan = 0;
};
struct AroundPlan {
  std::vector<PlannedFamily> families;
  FasterPlan faster;  // than the plan: its search was cut short, or its effort spent
  bool late = false;  // plans were left out
};
/// Makes no more plans once no seconds are `left` or `stop` is set.
AroundPlan look_around(const SpaceOfChoices&, const OuterOutcome&, const std::function<double()>& left,
                       const std::atomic<bool>* stop);
NoFit make_no_fit(const SpaceOfChoices&, const OuterOutcome&);
/// A plan's bytes by rank, tier and purpose; their sums are the peaks in `priced`.
std::vector<PlannedMemoryByTier> memory_classes(const SpaceOfChoices&, const Candidate&, const Instance&,
                                                const Assignment&, const Priced&);

}  // namespace tern
