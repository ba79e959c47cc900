#include "report/run_log.h"

#include <map>

#include "base/error.h"
#include "base/io.h"
#include "base/options.h"

namespace tern {

RunLog read_run(const std::string& directory) {
  const std::string path = join_path(join_path(directory, "logs"), "metrics.jsonl");
  if (!real_io().stat(path))
    throw Error(ErrorKind::bad_file,
                "{}: no logs/metrics.jsonl in it, expected a run directory, the --output of tern train", directory);
  RunLog run{directory, read_metrics(path)};
  if (const std::string recipe = join_path(directory, "recipe.toml"); real_io().stat(recipe))
    run.settings = read_recipe_values(recipe);
  if (run.log.rows.empty())
    throw Error(ErrorKind::bad_file,
                "{}: has no rows yet, expected at least one; has the run got as far as --log-every?", path);
  return run;
}

TagSeries series_of(const RunLog& run, const std::string& tag) {
  std::map<int64_t, double> by_step;
  for (const MetricRow& row : run.log.rows)
    for (const auto& [name, value] : row.values)
      if (name == tag) by_step[row.step] = value;
  TagSeries series;
  for (const auto& [step, value] : by_step) series.steps.push_back(step), series.values.push_back(value);
  return series;
}

}  // namespace tern
