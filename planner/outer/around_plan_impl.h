#pragma once
// The rivals of the best plan: families of choices that lack one of its features, and its neighbours.

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "planner/outer/answer_impl.h"

namespace tern {

/// A plan that is faster than the best one; makespan in ps.
struct FasterPlan {
  int candidate = -1;  // none
  Assignment assignment;
  int64_t makespan = 0;
};
/// The rivals of the best plan. `families` has first, for each feature, the values that the plan does not have (sorted by bound, each
/// with the best plan of this value that was seen); then the choices one step from the plan (micro-batch halved or doubled,
/// another schedule, a factor of two moved from one axis to another) whose plans are within 5 % of its step time.
struct AroundPlan {
  std::vector<PlannedFamily> families;
  FasterPlan faster;  // there is one only if the search was cut short or its effort was spent
  bool late = false;  // some plans were not made, because time was over
};
/// Looks around the outcome's best plan. It makes no more plans once no seconds are `left` or `stop` is set.
AroundPlan look_around(const SpaceOfChoices&, const OuterOutcome&, const std::function<double()>& left,
                       const std::atomic<bool>* stop);

}  // namespace tern
