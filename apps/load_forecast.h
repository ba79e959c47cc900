#pragma once
// What `tern plan --inference` foretells of a server on the hardware of a file, beside what a load measures.

#include "base/json.h"
#include "plan/serving_search.h"
#include "serve/load/load_report.h"

namespace tern {

class Options;

struct LoadForecast {
  bool found = false;                       // false: it does not fit, or nothing reaches the targets
  ServingPlan plan;                         // for the users that are asked for; of none as many as keep the targets
  double best_ttft_s = 0, best_tpot_s = 0;  // where nothing reaches them
};
/// `server`: the options of tern serve. users 0: as many as the targets allow. Errors: as find_cluster, describe_model.
LoadForecast load_forecast(const Options& server, const std::string& hardware, const SequenceLengths& prompts,
                           const SequenceLengths& answers, int64_t users, const LoadTargets&);
Json forecast_json(const LoadForecast&);
std::string forecast_text(const LoadForecast&);

}  // namespace tern
