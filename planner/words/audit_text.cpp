#include "planner/words/audit_text.h"

#include <fmt/format.h>

#include "base/text.h"
#include "base/units.h"
#include "planner/words/plan_text.h"

namespace tern {

std::string audit_counts(const PlanAudit& a) {
  const auto count = [&](AuditedBy by) { return format_with_commas(a.count(by)); };
  return fmt::format("{} choices bounded anew in {}: {} without room, {} by work, {} by paths, {} by labels, {} open{}",
                     format_with_commas(a.choices), format_seconds(a.seconds), count(AuditedBy::memory),
                     count(AuditedBy::work), count(AuditedBy::paths), count(AuditedBy::labels), count(AuditedBy::open),
                     a.unlike_left ? "; pipelines over nodes of several types were not judged" : "");
}

std::string audit_text(const PlanAudit& a, const Plan& p) {
  const auto unjudged = unjudged_keys();
  return fmt::format("\naudit      {}{}: the plan fits and takes {}; {} is faster than {} ({:.2f} % below it)\n",
                     name_of(a.verdict), a.late ? ", for want of time" : "", step_words(p.step_ps),
                     a.unlike_left ? "no choice on nodes of one type" : "no choice", step_words(a.proven_ps),
                     100 * (1 - static_cast<double>(a.proven_ps) / static_cast<double>(p.step_ps))) +
         labelled("", audit_counts(a)) + labelled("", "not judged: " + join({unjudged.begin(), unjudged.end()}, ", "));
}

}  // namespace tern
