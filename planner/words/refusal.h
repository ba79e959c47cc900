#pragma once
// Why there is no plan: what is missing, and what near the question would fit.

#include <string>

#include "base/error.h"
#include "planner/outer/plan_question.h"

namespace tern {

/// What is thrown, and printed as JSON.
struct Refusal {
  Error error;       // does_not_fit where every choice is closed, undecided else
  std::string json;  // the figures, where nothing fits; "" else
};
/// The refusal of an answer without a plan. A count of work ends the search for what would fit, so it finds the same on every
/// machine; seconds and the request's limits end the search for the smallest change of pinned axes.
Refusal refusal_of(const PlanQuestion&, const PlanAnswer&);

}  // namespace tern
