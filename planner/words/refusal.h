#pragma once
// Why there is no plan: what is missing, and what near the question would fit.

#include <string>

#include "base/error.h"
#include "planner/outer/plan_question.h"

namespace tern {

struct Refusal {
  Error error;       // does_not_fit where every choice is closed, undecided else
  std::string json;  // the figures, where nothing fits; "" else
};
/// Of an answer without a plan. Looks for what would fit by counted work, so that the answer is the same on every
/// machine; for the smallest change of pinned axes, seconds and the request's limits end it.
Refusal refusal_of(const PlanQuestion&, const PlanAnswer&);

}  // namespace tern
