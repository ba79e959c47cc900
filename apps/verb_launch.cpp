// tern launch: a verb on several ranks of this machine, each a process.
#include <fmt/format.h>

#include <algorithm>

#include "apps/child_process.h"
#include "apps/launcher.h"
#include "apps/restart_ranks.h"
#include "apps/signals.h"
#include "apps/verbs.h"
#include "base/error.h"
#include "base/log.h"
#include "base/options.h"
#include "base/units.h"

namespace tern {
namespace {

LaunchConfig config_of(const Options& options) {
  if (!options.has("ranks")) throw Error(ErrorKind::usage, "launch: how many ranks? Say -n N");
  if (options.command().empty())
    throw Error(ErrorKind::usage, "launch: what is to run stands after --, such as `{} launch -n 2 -- train …`",
                program_name());
  if (options.command().front() != "train")
    throw Error(ErrorKind::usage, "launch: '{}' runs on one rank; expected train", options.command().front());
  LaunchConfig config{.ranks = static_cast<int>(options.integer("ranks")),
                      .silence_s = options.real("comm-timeout"),
                      .command = options.command()};
  config.command.insert(config.command.begin(), program_name());
  if (options.has("min-ranks") && options.integer("max-restarts") == 0)
    throw Error(ErrorKind::usage, "--min-ranks {}: nothing starts again without --max-restarts; add --max-restarts N",
                options.integer("min-ranks"));
  if (options.has("min-ranks") && options.integer("min-ranks") > config.ranks)
    throw Error(ErrorKind::usage, "--min-ranks {}: more than the {} of -n", options.integer("min-ranks"), config.ranks);
  return config;
}

}  // namespace

int run_launch(const Options& options) {
  LaunchConfig config = config_of(options);
  const StopSignals signals;
  const int64_t restarts = options.integer("max-restarts");
  const std::vector<std::string> arguments(options.command().begin() + 1, options.command().end());
  const bool may_shrink = options.has("min-ranks");
  const int least = may_shrink ? static_cast<int>(options.integer("min-ranks")) : config.ranks;
  const RankUnit unit = may_shrink ? rank_unit_of(arguments, config.ranks, process_environment()) : RankUnit{};
  // Fewer ranks have to sum as the first ones did. A --sum-groups of the command is stronger.
  if (ranks_after_loss(config.ranks, least, unit.ranks) < config.ranks)
    ::setenv("TERN_SUM_GROUPS", fmt::format("{}", std::max(1, config.ranks / unit.per_share)).c_str(), 0);
  for (int64_t restart = 0;; ++restart) {
    const LaunchEnd end = launch(config);
    if (end.lost.empty()) return end.exit_code;
    if (restart == restarts || stop_requested())
      throw Error(
          ErrorKind::peer,
          "{}; all ranks have ended{}. The same command goes on from the last checkpoint, or begins anew without one",
          end.lost, restart > 0 ? fmt::format(" after {}", counted(restart, "restart")) : "");
    const int wanted = ranks_after_loss(config.ranks, least, 1);
    config.ranks = ranks_after_loss(config.ranks, least, unit.ranks);
    config.again = true;
    log_warn("{}; starting again with {}{}, from the last checkpoint if there is one (restart {} of {})", end.lost,
             counted(config.ranks, "rank"), config.ranks > wanted ? fmt::format(" (not fewer, as {})", unit.why) : "",
             restart + 1, restarts);
  }
}

}  // namespace tern
