#include "apps/restart_ranks.h"

#include <fmt/format.h>

#include <numeric>
#include <optional>

#include "apps/options.h"
#include "base/error.h"
#include "plan/plan.h"
#include "train/plan_settings.h"

namespace tern {

RankUnit rank_unit_of(const std::vector<std::string>& arguments, int ranks, Environment environment) {
  environment.erase("TERN_RANKS");  // the launcher gives each rank its own
  try {
    const Options o = resolve_options(tern_options(), "train", arguments, environment);
    if (const std::optional<Plan> plan = plan_option(o)) {
      const int devices = static_cast<int>(plan->choice.devices());
      return {.ranks = devices, .why = fmt::format("the plan is of {}", devices)};
    }
    if (o.value("ranks").origin == Origin::command_line) {
      const int given = static_cast<int>(o.integer("ranks"));
      return {.ranks = given, .why = fmt::format("--ranks {} is given", given)};
    }
    if (const std::string& zero = o.text("zero"); zero == "2" || zero == "3")
      return {.ranks = ranks, .why = fmt::format("--zero {} sums each micro-batch over all", zero)};
    const int tensor = static_cast<int>(o.integer("tensor-parallel"));
    const int context = static_cast<int>(o.integer("context-parallel"));
    const int group = tensor * std::lcm(context, static_cast<int>(o.integer("expert-parallel")));
    if (group == 1) return {};
    return {.ranks = group,
            .per_share = tensor * context,
            .why = fmt::format("groups of {} share the model or its rows out", group)};
  } catch (const Error& e) {
    return {.ranks = ranks, .why = fmt::format("the command is not understood: {}", e.what())};
  }
}

int ranks_after_loss(int ranks, int least, int unit) {
  const bool may_halve = ranks % 2 == 0 && ranks / 2 >= least && ranks / 2 % unit == 0;
  return may_halve ? ranks / 2 : ranks;
}

}  // namespace tern
