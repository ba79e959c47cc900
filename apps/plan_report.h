#pragma once
// A plan and its audit in words, as `tern plan` prints them.

#include <string>

#include "base/error.h"
#include "planner/audit.h"
#include "planner/plan_model.h"

namespace tern {

/// Time or means ended before an answer was proven (docs/exit-codes.md); the message says what holds.
inline constexpr ErrorKind kUndecided = static_cast<ErrorKind>(8);

/// Four significant digits: a plan and its bound often agree in two.
std::string step_words(int64_t ps);
void print_plan(const PlanAnswer&, const Cluster&);
/// "1,792 choices bounded anew in 0.4 s: …".
std::string told(const PlanAudit&);
/// The verdict, what is proven, and what was not judged.
void print_audit(const PlanAudit&, const Plan&);

}  // namespace tern
