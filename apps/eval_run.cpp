#include "apps/eval_run.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "apps/common.h"
#include "apps/identity.h"
#include "apps/signals.h"
#include "apps/weights_options.h"
#include "base/error.h"
#include "base/io.h"
#include "base/log.h"
#include "base/options.h"
#include "kernels/dispatch.h"

namespace tern {

Json question_of(const Options& options, const ModelDescription& model, const EvalWindows& work) {
  Json q = {{"model", weights_identity(model)},     {"data", file_identity(options.text("data"))},
            {"convention", work.report.convention}, {"window", work.report.window},
            {"stride", work.report.stride},         {"windows", work.windows.size()},
            {"bos", work.report.bos_rule},          {"dtype", name_of(model.dtype)}};
  if (options.has("max-tokens")) q["tokens"] = work.report.num_tokens;
  if (options.has("chat-template")) q["chat_template"] = file_identity(options.text("chat-template"));
  if (options.given("answers")) q["answers"] = options.text("answers");
  if (in_integers(options)) q["arithmetic"] = options.text("arithmetic");
  if (const auto kv = kv_option(options, model.dtype)) q["kv_dtype"] = name_of(*kv);
  return q;
}

void open_log(const Options& options, const Json& question, std::optional<ResultLog>& log) {
  log.emplace(real_io(), options.text("output"), question);
  tell_notes(log->notes());
}

void check_done(const Options& options, size_t results, const EvalWindows& work) {
  if (results > work.windows.size())
    throw Error(ErrorKind::bad_file, "--output {}: {} results, there are {} windows", options.text("output"), results,
                work.windows.size());
}

int64_t windows_at_once(const Options& options, const EvalWindows& work) {
  return std::min(options.integer("batch"), static_cast<int64_t>(work.windows.size()));
}

InferenceNeeds window_needs(const EvalWindows& work, int64_t batch) {
  return {.context = work.report.window,
          .sequences = 0,
          .page_tokens = 16,
          .iteration_tokens = batch * work.report.window,
          .logit_rows = 0};
}

int stopped(const Error& error, bool resumable) {
  log_info("{}{}", error.what(), resumable ? "; the same command goes on" : "");
  return resumable ? static_cast<int>(ErrorKind::interrupted) : 128 + stop_signal();
}

void print_figures(const Options& options, const ModelDescription& model, Json figures, double seconds) {
  figures["model"] = options.positional("MODEL");
  figures["data"] = options.text("data");
  figures["dtype"] = name_of(model.dtype);
  figures["kv_dtype"] = name_of(kv_option(options, model.dtype).value_or(kv_type_of(model.dtype)));
  figures["arithmetic"] = options.text("arithmetic");
  figures["instruction_set"] = name_of(active_isa());
  figures["seconds"] = seconds;
  print_json(figures);
}

}  // namespace tern
