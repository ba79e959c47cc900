#pragma once
// An audit of a plan in words, as `tern plan --check` and `--certify` print it.

#include <string>

#include "planner/judges/audit.h"

namespace tern {

/// How many choices were judged and how: "1,792 choices bounded anew in 0.4 s: …".
std::string audit_counts(const PlanAudit&);
/// The verdict, what is proven, and what was not judged.
std::string audit_text(const PlanAudit&, const Plan&);

}  // namespace tern
