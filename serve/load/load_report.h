#pragma once
// What a load says of a server: times, rates, and the share of the requests that kept their targets.

#include <string>

#include "base/json.h"
#include "serve/load/load_client.h"

namespace tern {

struct LoadTargets {
  double ttft_s = 0, tpot_s = 0;  // to the first token, per token after it; 0: none
};

/// Of one kind of time, in seconds. p90: nine of ten are not longer (nearest rank).
struct LoadTimes {
  double mean = 0, median = 0, p90 = 0, p99 = 0, most = 0;
};
LoadTimes load_times(std::vector<double>);

struct LoadFigures {
  int64_t measured = 0, answered = 0, refused = 0, failed = 0;  // refused: 429 or 503; failed: anything else
  std::string first_error;
  LoadTimes ttft, tpot, gap, whole,
      late;  // of answered requests; gap: the longest of each; late: from due until sent
  double requests_per_s = 0, prompt_tokens_per_s = 0, output_tokens_per_s = 0;  // that ended in the window
  double in_flight = 0, seconds = 0;
  double within = 0;         // share of the measured requests that were answered within the targets
  double goodput_per_s = 0;  // requests within the targets per second
};
LoadFigures load_figures(const LoadResult&, const LoadTargets&);

Json load_json(const LoadFigures&);
std::string load_text(const LoadFigures&, const LoadTargets&);

}  // namespace tern
