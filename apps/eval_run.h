#pragma once
// What the jobs of `tern eval` do alike: they write a file of results, predict memory, and print figures.

#include <optional>

#include "apps/eval_windows.h"
#include "base/json.h"
#include "eval/result_log.h"
#include "infer/load.h"
#include "infer/memory_fit.h"

namespace tern {

class Error;
class Options;

/// The question that a results file of these windows answers (ResultLog).
Json question_of(const Options&, const ModelDescription&, const EvalWindows&);
/// Opens the results file --output, which must be given, and tells its notes. Errors: those of ResultLog.
void open_log(const Options&, const Json& question, std::optional<ResultLog>&);
/// Errors  bad_file: the results file has more results than there are windows.
void check_done(const Options&, size_t results, const EvalWindows&);

/// The number of windows of one forward: --batch, or all windows.
int64_t windows_at_once(const Options&, const EvalWindows&);
/// The sizes of an evaluation with `batch` windows at a time.
InferenceNeeds window_needs(const EvalWindows&, int64_t batch);
/// Tells the user that the job was stopped, and returns the exit code. `resumable`: the same command can continue.
int stopped(const Error&, bool resumable);
/// Prints the figures, and with them the facts that every evaluation reports.
void print_figures(const Options&, const ModelDescription&, Json figures, double seconds);

}  // namespace tern
