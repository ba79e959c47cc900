#include "apps/load_forecast.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "apps/common.h"
#include "base/error.h"
#include "base/options.h"
#include "base/units.h"
#include "hardware/machines.h"
#include "infer/load.h"

namespace tern {

LoadForecast load_forecast(const Options& server, const std::string& hardware, const SequenceLengths& prompts,
                           const SequenceLengths& answers, int64_t users, const LoadTargets& targets) {
  const Cluster cluster = find_cluster(hardware);
  const ModelDescription model = describe_model(server.positional("MODEL"), dtype_option(server));
  InferenceJob job{.prompt = prompts.longest(),
                   .answer = answers.longest(),
                   .users = users,
                   .dtype = model.dtype,
                   .weights = stored_as(model.dtype),
                   .kv = kv_option(server, model.dtype).value_or(kv_kept_as(model.dtype)),
                   .ttft_s = users > 0 ? 0 : targets.ttft_s,
                   .tpot_s = users > 0 ? 0 : targets.tpot_s,
                   .chunk = server.integer("chunk"),
                   .page = server.integer("page"),
                   .spill = false,
                   .latent_cache = false,
                   .most_tensor = 1,
                   .most_stages = 1};
  if (prompts.rows.size() > 1 || answers.rows.size() > 1)
    job.lengths = std::make_shared<RequestLengths>(prompts, answers);
  const ServingAnswer answer = plan_serving(model.spec, cluster, job);
  return {
      .found = answer.found, .plan = answer.plan, .best_ttft_s = answer.best_ttft_s, .best_tpot_s = answer.best_tpot_s};
}

Json forecast_json(const LoadForecast& f) {
  if (!f.found) return {{"users", 0}, {"best_ttft_s", f.best_ttft_s}, {"best_tpot_s", f.best_tpot_s}};
  const ServingPlan& p = f.plan;
  return {{"users", p.users},
          {"ttft_s", p.ttft_s},
          {"mean_ttft_s", p.mean_ttft_s},
          {"tpot_s", p.tpot_s},
          {"requests_per_s", p.requests_per_s},
          {"tokens_per_s", p.tokens_per_s()}};
}

std::string forecast_text(const LoadForecast& f) {
  if (!f.found)
    return fmt::format("foretold: no user within the targets; at best {} to a first token, {} per token\n",
                       format_seconds(f.best_ttft_s), format_seconds(f.best_tpot_s));
  const ServingPlan& p = f.plan;
  return fmt::format(
      "foretold: {}; first token {} on average, {} at most for 99 of 100; {} per token; {:.3g} requests/s, "
      "{:.4g} tokens/s\n",
      counted(p.users, "user"), format_seconds(p.mean_ttft_s), format_seconds(p.ttft_s), format_seconds(p.tpot_s),
      p.requests_per_s, p.tokens_per_s());
}

}  // namespace tern
