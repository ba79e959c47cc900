#pragma once
// `tern plan --check` and `--certify`: a plan and its bound are judged by code of their own (planner/judges/audit.h), which shares with the search only the question.

#include <optional>
#include <string>

#include "planner/judges/audit.h"
#include "planner/outer/plan_question.h"

namespace tern {

/// Judges a plan file, prints the audit if the plan holds (`json`: always, as JSON) and returns the exit code. Errors: bad_file: the plan is wrong; undecided: the bound or a
/// part of the plan could not be judged.
int check_plan(const PlanQuestion&, const std::string& path, bool json);

struct Certificate {
  std::optional<PlanAudit> audit;
  std::string solver;  // the mixed-integer solver's verdict, in words
  std::string doubt;   // why the plan is not certified; "": it is
};
/// Audits a plan that was found, for at most question.request.seconds. If the audit ends in time and the plan holds, sets the plan's bound to
/// the proven one, and adds what was not judged to its restrictions. `cut`: the search was ended early, so it may not know every choice.
Certificate certify(const PlanQuestion& question, Plan&, bool cut);
/// Prints the certificate; with `json` to standard error.
void print_certificate(const Certificate&, const Plan&, bool json);

}  // namespace tern
