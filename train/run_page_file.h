#pragma once
// OUT/page.html of a run that goes on or has ended.

#include <string>

#include "base/io.h"
#include "report/run_page.h"
#include "train/run_dir.h"
#include "train/trainer.h"

namespace tern {

/// What the page says of a run that has done `step` steps, `elapsed_s` of them in this process: the rest of its time is worked out of that.
RunState page_state(const TrainSettings&, const TrainResult&, int64_t step, double elapsed_s, bool runs);

/// Writes the page with the curves of OUT/logs. Returns "", or why the disk refused it: a run goes on without its page.
std::string write_run_page(Io&, const RunDirectory&, const RunState&);

}  // namespace tern
