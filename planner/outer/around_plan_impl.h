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
/// What lies around the best plan. `families`: for each feature the values that the plan does not have, those of least
/// bound first, each with the best plan that was seen; then the choices one step from the plan (micro-batch halved or
/// doubled, another schedule, a factor of two moved from one axis to another) that come within 5 % of its step time.
struct AroundPlan {
  std::vector<PlannedFamily> families;
  FasterPlan faster;  // there is one only where the search was cut short or its effort spent
  bool late = false;  // some plans were not made, for want of time
};
/// Looks around the outcome's best plan. It makes no more plans once no seconds are `left` or `stop` is set.
AroundPlan look_around(const SpaceOfChoices&, const OuterOutcome&, const std::function<double()>& left,
                       const std::atomic<bool>* stop);

}  // namespace tern
