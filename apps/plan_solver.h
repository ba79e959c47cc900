#pragma once
// An independent check of the search's optimum: the plan's outer choice as a mixed-integer programme under UniAP's simple objective, given to a solver if
// one is installed.

#include <string>

#include "plan/plan.h"
#include "planner/outer/plan_question.h"

namespace tern {

struct SolverVerdict {
  std::string words;     // says that solver and search agree, or why there was no check
  bool differs = false;  // whether the solver found another optimum, so that solver or search is wrong
};
/// Runs the solver, which is any program of that name on the PATH. Its failures are reported in the verdict, not thrown.
SolverVerdict solver_verdict(const PlanQuestion&, const Plan&);

}  // namespace tern
