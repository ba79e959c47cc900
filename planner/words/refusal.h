#pragma once
// Why there is no plan: what is missing, and which similar requests have a plan.

#include <string>

#include "base/error.h"
#include "planner/outer/plan_question.h"

namespace tern {

/// The error that is thrown, and the JSON that is printed.
struct Refusal {
  Error error;       // does_not_fit if every choice is proven not to fit, else undecided
  std::string json;  // the figures, with does_not_fit; else ""
};
/// The refusal of an answer without a plan. The search for similar requests that fit ends after a count of work, so it finds the same
/// on every machine. The search for the smallest change of pinned axes ends after a fixed time, or earlier at the request's limits.
Refusal refusal_of(const PlanQuestion&, const PlanAnswer&);

}  // namespace tern
