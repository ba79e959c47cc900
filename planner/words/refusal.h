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
/// The refusal of an answer without a plan. It looks for what would fit by counted work, so that it is the same on
/// every machine; the search for the smallest change of pinned axes is ended by seconds and the request's limits.
Refusal refusal_of(const PlanQuestion&, const PlanAnswer&);

}  // namespace tern
