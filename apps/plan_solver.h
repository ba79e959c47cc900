#pragma once
// An independent check of the search: a mixed-integer solver (cbc or highs), if one is installed, and the search both solve the plan's
// outer choice under the simple objective (Objective::simple, planner/instance/search.h). Their optima must be equal.

#include <string>

#include "plan/plan.h"
#include "planner/outer/plan_question.h"

namespace tern {

struct SolverVerdict {
  std::string words;     // whether solver and search agree, or why there was no check
  bool differs = false;  // whether the solver found another optimum, so that solver or search is wrong
};
/// Runs cbc or else highs, whatever program of that name is on the PATH. Failures are reported in the verdict, not thrown.
SolverVerdict solver_verdict(const PlanQuestion&, const Plan&);

}  // namespace tern
