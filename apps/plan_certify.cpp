#include "apps/plan_certify.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "apps/common.h"
#include "apps/plan_lines.h"
#include "apps/plan_solver.h"
#include "apps/signals.h"
#include "base/error.h"
#include "base/log.h"
#include "plan/plan_file.h"
#include "planner/words/audit_text.h"
#include "planner/words/plan_text.h"

namespace tern {

int check_plan(const PlanQuestion& q, const std::string& path, bool json) {
  const Plan plan = read_plan(path);
  const PlanAudit a = audit_plan(q.spec, q.cluster, q.request, plan);
  const auto unjudged = unjudged_keys();
  if (json)
    print_json(Json{{"verdict", name_of(a.verdict)},
                    {"accepted", a.accepted()},
                    {"reason", a.reason},
                    {"plan_holds", a.plan_holds()},
                    {"step_ps", plan.step_ps},
                    {"claimed_bound_ps", plan.bound_ps},
                    {"proven_bound_ps", a.proven_ps},
                    {"choices", a.choices},
                    {"by_memory", a.count(AuditedBy::memory)},
                    {"by_work", a.count(AuditedBy::work)},
                    {"by_paths", a.count(AuditedBy::paths)},
                    {"by_labels", a.count(AuditedBy::labels)},
                    {"open", a.count(AuditedBy::open)},
                    {"unlike_nodes_left", a.unlike_left},
                    {"not_judged", std::vector<std::string>(unjudged.begin(), unjudged.end())}});
  else if (a.plan_holds())
    print_lines(audit_text(a, plan));
  switch (a.verdict) {
    case Verdict::accepted:
      return 0;
    case Verdict::in_part:
      throw Error(ErrorKind::undecided, "{}: the plan holds, and its bound on nodes of one type; {}", path, a.reason);
    case Verdict::unproven:
      if (stop_requested()) return 128 + stop_signal();
      throw Error(ErrorKind::undecided,
                  "{}: the plan holds; its bound claims more than the audit proves: {}; what is proven is {}; {}", path,
                  a.reason, step_words(a.proven_ps), a.late ? "give --max-seconds more" : "plan again with --certify");
    case Verdict::not_judged:
      throw Error(ErrorKind::undecided, "{}: {}", path, a.reason);
    case Verdict::rejected:
      break;
  }
  throw Error(ErrorKind::bad_file, "{}: the plan does not hold: {}", path, a.reason);
}

// What is certified claims no more than the audit proves.
Certificate certify(const PlanQuestion& q, Plan& plan, bool cut) {
  Certificate c{.audit = audit_plan(q.spec, q.cluster, q.request, plan)};
  PlanAudit& a = *c.audit;
  TERN_CHECK(a.verdict != Verdict::rejected || cut || stop_requested(), "plan: the audit disagrees with the search: {}",
             a.reason);
  if (!a.plan_holds() || a.late) {
    c.doubt = a.late ? "the audit had no time for every choice; give --max-seconds more" : a.reason;
    return c;
  }
  plan.bound_ps = a.proven_ps;
  a.verdict = a.unlike_left ? Verdict::in_part : Verdict::accepted, a.reason.clear();
  if (a.unlike_left) {
    a.reason = "pipelines over nodes of several types were not judged";
    c.doubt = "its bound is certified for nodes of one type alone; " + a.reason;
    plan.restrictions.push_back(c.doubt);
  }
  SolverVerdict solver = solver_verdict(q, plan);
  c.solver = std::move(solver.words);
  if (solver.differs) c.doubt = c.solver;
  return c;
}

void print_certificate(const Certificate& c, const Plan& plan, bool json) {
  if (!c.audit || !c.audit->plan_holds()) return;
  const std::string solver = c.solver.empty() ? "not asked" : c.solver;
  if (json) {
    log_info("audit: {}; no judged choice is faster than {}; {}; solver: {}", name_of(c.audit->verdict),
             step_words(c.audit->proven_ps), audit_counts(*c.audit), solver);
  } else {
    print_lines(audit_text(*c.audit, plan));
    print_lines(fmt::format("solver     {}\n", solver));
  }
}

}  // namespace tern
