#pragma once
// `tern plan --check` and `--certify`: a plan and its bound judged by code that shares nothing with the search.

#include <optional>
#include <string>

#include "planner/judges/audit.h"
#include "planner/outer/plan_question.h"

namespace tern {

/// Judges a plan file, prints the audit (`json`: as JSON) and returns the exit code. Errors: bad_file, for a plan that
/// does not hold; undecided, where the bound or a part of the plan is not judged.
int check_plan(const PlanQuestion&, const std::string& path, bool json);

struct Certificate {
  std::optional<PlanAudit> audit;
  std::string solver;  // the mixed-integer solver's verdict, in words
  std::string doubt;   // why the plan is not certified; "" if it is
};
/// Audits a plan that was found, in as many seconds as the question's request has. Its bound becomes the one that the
/// audit proves; what was not judged becomes a restriction. `cut`: the search may not know every choice.
Certificate certify(const PlanQuestion&, Plan&, bool cut);
/// `json`: to standard error.
void print_certificate(const Certificate&, const Plan&, bool json);

}  // namespace tern
