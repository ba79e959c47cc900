#pragma once
// Judges a plan, whoever made it: is it legal, does it fit, does it take the time it says, and is there really nothing
// below the bound it claims? Every outer choice is enumerated and bounded anew (audit_bound.h); of the search's code
// none is used, only what defines the question: the cost model, the rules of legality, the schedules.

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
  accepted,  // it is what it says, and no choice of the space is below its bound
  in_part,  // the same for pipelines on nodes of one type; those over several types are in the space and are not judged
  unproven,    // it is what it says; but this judge cannot prove that nothing is below its bound
  not_judged,  // its own stages lie on nodes of several types
  rejected,    // it is not what it says, or not in the space
};
std::string_view name_of(Verdict);

/// The judgement. Times in ps.
struct PlanAudit {
  Verdict verdict = Verdict::rejected;
  std::string reason;           // why it is not accepted
  int64_t proven_ps = 0;        // no judged choice is below this: at most the plan's bound_ps
  int64_t choices = 0;          // outer choices that were judged
  std::array<int64_t, 5> by{};  // how many were closed by each AuditedBy; `open`: those with a bound below the plan's,
                                // so that proven_ps is below it too
  bool unlike_left = false;     // pipelines over nodes of several types are in the space, and are not judged
  bool late = false;            // `seconds` or `stop` ended it: what came after is bounded by its work alone
  double seconds = 0;
  bool accepted() const { return verdict == Verdict::accepted; }
  /// Legal, fits, and takes its time, bytes and price.
  bool plan_holds() const { return verdict != Verdict::rejected && verdict != Verdict::not_judged; }
  int64_t count(AuditedBy what) const { return by[static_cast<size_t>(what)]; }
};

/// Keys of a plan file (dots between levels) that are judged only by whether they contradict what is judged:
/// explanations, and what only the search knows.
std::span<const std::string_view> unjudged_keys();

/// Judges a plan. `request`: model, job, space and `stop`; its seconds end the audit too.
/// Order: the same answer whatever the machine, unless time ended it. Errors: none for a wrong plan; usage, as
/// plan_model, where the question has no legal choice.
PlanAudit audit_plan(const ModelSpec&, const Cluster&, const PlanRequest& request, const Plan&);

/// The tables of a plan's outer choice, every strategy of the space: what audit_plan bounds for it.
Instance instance_of(const ModelSpec&, const Cluster&, const PlanRequest&, const Plan&);

}  // namespace tern
