#pragma once
// What a training run left in its directory: its metrics log, its settings, and the values of one tag.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "report/metrics_log.h"

namespace tern {

/// A run's log and settings.
struct RunLog {
  std::string name;  // as the user called it
  MetricsFile log;
  std::vector<std::pair<std::string, std::string>> settings = {};  // of its recipe.toml; empty: it has none
};

/// Reads DIRECTORY/logs/metrics.jsonl and, if it is there, DIRECTORY/recipe.toml.
/// Errors  bad_file: no such log (the message says what a run directory is), a malformed one, or one without rows; those of the recipe.
RunLog read_run(const std::string& directory);

/// One tag of one run. Steps ascend; if a step was logged twice, the later row counts.
struct TagSeries {
  std::vector<int64_t> steps;
  std::vector<double> values;
};
/// The values of a tag.
TagSeries series_of(const RunLog& run, const std::string& tag);

}  // namespace tern
