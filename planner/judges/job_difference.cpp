#include "planner/judges/job_difference.h"

#include <fmt/format.h>

#include <string_view>

#include "base/dtype.h"
#include "spec/update_rule.h"

namespace tern {

static std::string_view on_or_off(bool is_on) { return is_on ? "on" : "off"; }

std::string job_difference(const TrainJob& plan, const TrainJob& asked) {
  const auto differ = [](const char* option, const auto& one, const auto& other) {
    return one == other ? "" : fmt::format("it is for --{} {}, not {}", option, one, other);
  };
  for (std::string each : {differ("batch", plan.batch, asked.batch), differ("seq", plan.seq, asked.seq),
                           differ("dtype", name_of(plan.dtype), name_of(asked.dtype)),
                           differ("gradients", name_of(plan.gradients), name_of(asked.gradients)),
                           differ("optimizer", name_of(plan.optimizer), name_of(asked.optimizer)),
                           differ("capacity-factor", plan.capacity_factor, asked.capacity_factor),
                           differ("tp-comm-overlap", on_or_off(plan.tensor_overlap), on_or_off(asked.tensor_overlap))})
    if (!each.empty()) return each;
  return plan == asked ? "" : "it is of another job";
}

}  // namespace tern
