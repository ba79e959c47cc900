#pragma once
// What `tern plan --inference` predicts for a server on the hardware of a cluster file, for comparison with a measured load.

#include "base/json.h"
#include "plan/serving_search.h"
#include "serve/load/load_report.h"

namespace tern {

class Options;

struct LoadForecast {
  bool found = false;                       // false: the model does not fit, or nothing reaches the targets
  ServingPlan plan;                         // for `users` users, or for as many as the targets allow
  double best_ttft_s = 0, best_tpot_s = 0;  // if nothing reaches the targets: the shortest times that there are
};
/// `server`: the options of tern serve. `users` 0: as many as the targets allow. Errors: those of find_cluster and describe_model.
LoadForecast load_forecast(const Options& server, const std::string& hardware, const SequenceLengths& prompts,
                           const SequenceLengths& answers, int64_t users, const LoadTargets&);
Json forecast_json(const LoadForecast&);
std::string forecast_text(const LoadForecast&);

}  // namespace tern
