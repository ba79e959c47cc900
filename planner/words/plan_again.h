#pragma once
// Planning once more with a changed request, for questions around a plan.

#include "planner/outer/plan_model.h"

namespace tern {

/// plan_model's answer, except that `found` is false if the changed request has no legal choice.
/// Errors: those of plan_model except usage.
PlanAnswer plan_again(const ModelSpec&, const Cluster&, const PlanRequest&);
/// Whether somebody asked the request's search to stop.
bool is_stopped(const PlanRequest&);

}  // namespace tern
