#pragma once
// Judges a plan, whoever made it: whether it is legal, fits and takes the time that it states, and whether really no choice is
// faster than its stated bound. Every outer choice is enumerated and bounded anew (audit_bound.h). The audit uses none of the
// search's code except what defines the question: the cost model, the rules of legality, the schedules.

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "planner/judges/audit_bound.h"
#include "planner/outer/plan_model.h"

namespace tern {

/// The verdict on a plan.
enum class Verdict : uint8_t {
  accepted,    // what the plan states is true, and no choice of the space is below its bound
  in_part,     // accepted, but pipelines over nodes of several types, which are in the space, were not judged
  unproven,    // what the plan states is true; that no choice is below its bound could not be proven
  not_judged,  // the plan's own stages lie on nodes of several types
  rejected,    // something that the plan states is false, or the plan is not in the space
};
std::string_view name_of(Verdict);

/// The judgement. Times in ps.
struct PlanAudit {
  Verdict verdict = Verdict::rejected;
  std::string reason;           // why it is not accepted
  int64_t proven_ps = 0;        // no judged choice takes less; at most the plan's bound_ps
  int64_t choices = 0;          // outer choices that were judged
  std::array<int64_t, 5> by{};  // number of choices by AuditedBy. If any is AuditedBy::open, proven_ps is below the
                                // plan's bound_ps
  bool unlike_left = false;     // pipelines over nodes of several types are in the space, but were not judged
  bool late = false;            // `seconds` or `stop` cut the audit short: work alone bounds the choices left
  double seconds = 0;
  bool accepted() const { return verdict == Verdict::accepted; }
  /// Whether the plan is legal, fits, and has the time, bytes and price that it states.
  bool plan_holds() const { return verdict != Verdict::rejected && verdict != Verdict::not_judged; }
  int64_t count(AuditedBy what) const { return by[static_cast<size_t>(what)]; }
};

/// Keys of a plan file (levels joined by dots) that are not judged themselves, because they are explanations or only the
/// search knows them. If such a key contradicts a judged key, the audit rejects the plan.
std::span<const std::string_view> unjudged_keys();

/// Judges a plan. `request`: model, job, space and `stop`; the request's `seconds` end the audit too.
/// The answer is the same on every machine, unless `seconds` or `stop` ended the audit. Errors: usage, as plan_model, if the
/// question has no legal choice; a wrong plan is no error.
PlanAudit audit_plan(const ModelSpec&, const Cluster&, const PlanRequest& request, const Plan&);

/// The instance of a plan's outer choice with every strategy of the space: the one that audit_plan bounds for this choice.
Instance instance_of(const ModelSpec&, const Cluster&, const PlanRequest&, const Plan&);

}  // namespace tern
