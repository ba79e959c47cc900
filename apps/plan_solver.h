#pragma once
// The plan's outer choice as a mixed-integer programme under UniAP's simple objective, for a solver if one is installed: an
// independent check of the search's optimum.

#include <string>

#include "plan/plan.h"
#include "planner/outer/plan_question.h"

namespace tern {

struct SolverVerdict {
  std::string words;     // that solver and search agree, or which check was not made and why
  bool differs = false;  // the solver's optimum is another: the solver or the search is wrong
};

/// The solver is whatever program of that name is on the PATH: what it does is reported, never thrown.
SolverVerdict solver_verdict(const PlanQuestion&, const Plan&);

}  // namespace tern
