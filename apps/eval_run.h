#pragma once
// What the jobs of `tern eval` do alike: the file of results, the memory of windows, the end.

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
/// The results file --output, and what is told of it. Errors: those of ResultLog.
void open_log(const Options&, const Json& question, std::optional<ResultLog>&);
/// Errors  bad_file: the results file has more results than there are windows.
void check_done(const Options&, size_t results, const EvalWindows&);

/// Windows at a time: --batch, or all.
int64_t windows_at_once(const Options&, const EvalWindows&);
InferenceNeeds window_needs(const EvalWindows&, int64_t batch);

/// Tells that it was stopped; returns the exit code.
int stopped(const Error&, bool resumable);
/// Prints the figures with what every evaluation says of itself.
void print_figures(const Options&, const ModelDescription&, Json figures, double seconds);

}  // namespace tern
