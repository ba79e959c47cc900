#include "apps/beside_plan.h"

#include <fmt/format.h>

#include "base/options.h"
#include "base/units.h"
#include "train/plan_settings.h"

namespace tern {

// Fewer steps are often held up by something else.
static constexpr int64_t kStepsCompared = 3;

std::string planned_words(const Plan& p) {
  const PlannedStep step = planned_step(p);
  return format_seconds(static_cast<double>(step.ps) * 1e-12) + (step.of_program ? " by the time of its Program" : "");
}

std::string beside_plan(const Plan& p, const TrainResult& r) {
  if (r.steady_step_seconds <= 0) return "";
  const std::string took =
      fmt::format("; a step took {} on average from the second on", format_seconds(r.steady_step_seconds));
  if (p.program && p.program->checksum != r.program_checksum)
    return fmt::format("{}; the plan's {} (for {}) are of other steps than these: its Program has another checksum",
                       took, planned_words(p), p.hardware);
  const std::string says = fmt::format("{}, the plan for {} says {}", took, p.hardware, planned_words(p));
  if (r.last_step - r.first_step - r.idle_steps <= kStepsCompared) return says + " (too few steps to compare)";
  const double ratio = r.steady_step_seconds / (static_cast<double>(planned_step(p).ps) * 1e-12);
  if (ratio > 0.5 && ratio < 2) return fmt::format("{} ({:+.1f} %)", says, 100 * (ratio - 1));
  return fmt::format("{}, {} times the {} of the plan for {}; measure this machine anew (`{} profile`) and plan again",
                     took, ratio >= 2 ? fmt::format("{:.1f}", ratio) : fmt::format("{:.2f}", ratio), planned_words(p),
                     p.hardware, program_name());
}

}  // namespace tern
