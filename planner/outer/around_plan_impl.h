#pragma once
// The rivals of the best plan: families of choices that lack one of its features, and its neighbours.

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "planner/outer/answer_impl.h"

namespace tern {

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

}  // namespace tern
