// plan calibrate and plan table: the runs of a table, and the constants fitted to them.
#include "apps/options/rows.h"

#include "spec/pipeline_schedule.h"

namespace tern {
namespace {

std::vector<std::string_view> schedules_without_chunks() {
  std::vector<std::string_view> names;
  for (const PipelineScheduleTraits& t : kPipelineScheduleTable)
    if (t.chunks == ChunkRule::one) names.push_back(t.name);
  return names;
}

}  // namespace

// One row, one line.
// clang-format off
OptionRows calibration_rows() {
  using enum OptionType;
  return {
      {.name = "calibration", .verbs = "plan plan-table", .type = path, .unit = "FILE", .help = "constants that tern plan calibrate fitted; predictions then carry an error bar"},
      {.name = "hardware", .verbs = "plan-calibrate", .type = path, .unit = "FILE", .help = "cluster file of the runs, or a ready machine; as many nodes are taken as a run has"},
      {.name = "hardware", .verbs = "plan-table", .type = path, .unit = "FILE", .help = "another cluster file than the calibration's, or none: the file's own rates"},
      {.name = "software", .verbs = "plan-calibrate", .type = text, .fallback = "not stated", .unit = "NAME", .help = "the framework that made these runs"},
      {.name = "folds", .verbs = "plan-calibrate", .type = choice, .fallback = "layout", .help = "rows that are left out together: those of one layout of parallel degrees, of one model, or a fifth at random", .choices = {"layout", "model", "rows"}},
      {.name = "vocabulary", .verbs = "plan-calibrate plan-table", .type = integer, .fallback = "51200", .unit = "N", .help = "where the table has no such column", .min = 1, .max = 67108864},
      {.name = "schedule", .verbs = "plan-calibrate plan-table", .type = choice, .fallback = "1f1b", .help = "where the table has no such column", .choices = schedules_without_chunks()},
      {.name = "dtype", .verbs = "plan-calibrate plan-table", .type = choice, .fallback = "f16", .help = "where the table has no such column", .choices = {"f16", "bf16", "f32"}},
      {.name = "recompute", .verbs = "plan-calibrate plan-table", .type = choice, .fallback = "full", .help = "where the table has no such column", .choices = {"none", "attention", "full"}},
      {.name = "output", .verbs = "plan-calibrate", .type = path, .unit = "FILE", .help = "write the calibration here, as TOML"},
  };
}
// clang-format on

}  // namespace tern
