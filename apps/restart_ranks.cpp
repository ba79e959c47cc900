#include "apps/restart_ranks.h"

#include <fmt/format.h>

#include <exception>
#include <numeric>
#include <optional>

#include "apps/options.h"
#include "plan/plan.h"
#include "train/plan_settings.h"

namespace tern {

RankUnit rank_unit_of(const std::vector<std::string>& arguments, Environment environment) {
  environment.erase("TERN_RANKS");  // the launcher gives each rank its own
  try {
    const Options o = resolve_options(tern_options(), "train", arguments, environment);
    if (const std::optional<Plan> plan = plan_option(o)) {
      const int devices = static_cast<int>(plan->choice.devices());
      return {devices, fmt::format("the plan is of {}", devices)};
    }
    if (o.value("ranks").origin == Origin::command_line) {
      const int ranks = static_cast<int>(o.integer("ranks"));
      return {ranks, fmt::format("--ranks {} is given", ranks)};
    }
    const int64_t sharers = std::lcm(o.integer("context-parallel"), o.integer("expert-parallel"));
    const int group = static_cast<int>(o.integer("tensor-parallel") * sharers);
    if (group == 1) return {};
    return {group, fmt::format("groups of {} share the model or its rows out", group)};
  } catch (const std::exception&) { return {}; }
}

int ranks_after_loss(int ranks, int least, int unit) {
  const bool may_halve = ranks % 2 == 0 && ranks / 2 >= least && ranks / 2 % unit == 0;
  return may_halve ? ranks / 2 : ranks;
}

}  // namespace tern
