#pragma once
// What a load says of a server: times, rates, and the share of requests that were answered within the targets.

#include <string>

#include "base/json.h"
#include "serve/load/load_client.h"

namespace tern {

/// The most seconds to the first token, and per token after it; 0: no target.
struct LoadTargets {
  double ttft_s = 0, tpot_s = 0;
};
/// Statistics of times, in seconds. p90: nine of ten times are not longer (nearest rank).
struct LoadTimes {
  double mean = 0, median = 0, p90 = 0, p99 = 0, most = 0;
};
LoadTimes load_times(std::vector<double>);

struct LoadFigures {
  int64_t measured = 0, answered = 0, refused = 0, failed = 0;  // refused: 429 or 503; failed: anything else
  std::string first_error;
  // Of answered requests. gap: the longest gap of each; whole: from due to the end; late: from due to sent.
  LoadTimes ttft, tpot, gap, whole, late;
  double requests_per_s = 0, prompt_tokens_per_s = 0, output_tokens_per_s = 0;  // of answers that ended in the window
  double in_flight = 0, seconds = 0;
  double within = 0;         // the share of measured requests that were answered within the targets
  double goodput_per_s = 0;  // the number of these per second
};
LoadFigures load_figures(const LoadResult&, const LoadTargets&);

Json load_json(const LoadFigures&);
std::string load_text(const LoadFigures&, const LoadTargets&);

}  // namespace tern
