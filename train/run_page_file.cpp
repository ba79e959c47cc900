#include "train/run_page_file.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/units.h"
#include "report/run_log.h"

namespace tern {

RunState page_state(const TrainSettings& s, const TrainResult& result, int64_t step, double elapsed_s, bool runs) {
  RunState state{.title = fmt::format("{}: a run of tern {}", s.output, s.adapter ? "adapt" : "train"),
                 .runs = runs,
                 .step = step,
                 .total_steps = s.schedule.total_steps,
                 .facts = {{"parameters", format_count(static_cast<double>(result.num_parameters))},
                           {"memory predicted", format_bytes(result.predicted.total())}},
                 .settings = s.recipe_toml};
  if (const int64_t done = step - result.first_step; done > 0)
    state.seconds_left = elapsed_s / static_cast<double>(done) * static_cast<double>(state.total_steps - step);
  return state;
}

std::string write_run_page(Io& io, const RunDirectory& run, const RunState& state) {
  const std::string log = join_path(run.logs(), "metrics.jsonl");
  try {
    const RunLog curves{.name = run.path(), .log = io.stat(log) ? parse_metrics(io.read(log), log) : MetricsFile{}};
    write_file_atomically(io, run.page(), run_page(curves, state));
  } catch (const Error& e) { return fmt::format("{}; the run goes on without its page", e.what()); }
  return "";
}

}  // namespace tern
