#pragma once
// OUT/page.html of a run that goes on or has ended.

#include <string>

#include "base/io.h"
#include "report/run_page.h"
#include "train/run_dir.h"
#include "train/trainer.h"

namespace tern {

/// What the page says of a run that has done `step` steps. This process did those after step result.first_step, in `elapsed_s`
/// seconds; the time left is predicted from their mean.
RunState page_state(const TrainSettings&, const TrainResult&, int64_t step, double elapsed_s, bool runs);

/// Writes the page with the curves of OUT/logs. Returns "", or why the disk refused it: a run goes on without its page.
std::string write_run_page(Io&, const RunDirectory&, const RunState&);

}  // namespace tern
