#pragma once
// Judges a plan, whoever made it: is it legal, does it fit, does it take the time it says, and is there really nothing
// below the bound it claims? Every outer choice is enumerated and bounded anew (audit_bound.h); of the search's code
// none is used, only what defines the question: the cost model, the rules of legality, the schedules.

#include <cstdint>
#include <string>

#include "planner/audit_bound.h"
#include "planner/plan_model.h"

namespace tern {

struct PlanAudit {
  /// The plan is what it says, and its bound holds. Else `reason`.
  bool accepted = false;
  std::string reason;
  bool judged = true;        // false: its stages lie on nodes of several types, whose plans are not judged
  bool plan_holds = false;   // legal, fits, and takes its step_ps and its peaks
  int64_t proven_ps = 0;     // no choice is below this: at most the plan's bound_ps
  int64_t choices = 0;       // outer choices that were judged
  int64_t by[5]{};           // of them, by AuditedBy; open: bounded below the plan's bound, and so is what is proven
  bool unlike_left = false;  // pipelines over nodes of several types are in the space, and are not judged
  double seconds = 0;
};

/// `request`: model, job, space and `stop`; its seconds end the audit too, and what is left open then proves nothing.
/// Order: the same answer whatever the machine, unless time ended it. Errors: none for a wrong plan; usage, as
/// plan_model, where the question has no legal choice.
PlanAudit audit_plan(const ModelSpec&, const Cluster&, const PlanRequest& request, const Plan&);

/// The tables of a plan's outer choice, every strategy of the space: what audit_plan bounds for it.
Instance instance_of(const ModelSpec&, const Cluster&, const PlanRequest&, const Plan&);

}  // namespace tern
