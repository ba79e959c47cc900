#include "apps/generate_trace.h"

#include <fmt/format.h>

#include <exception>

#include "apps/inference_weights.h"
#include "apps/model_engine.h"
#include "base/error.h"
#include "base/io.h"
#include "base/log.h"
#include "base/options.h"
#include "base/text.h"
#include "base/units.h"
#include "train/step_trace.h"

namespace tern {
namespace {

// The first token comes with the prompt, the second lets the ring fill.
constexpr int64_t kTracedFrom = 3, kTracedTokens = 3, kLeastTokens = kTracedFrom + kTracedTokens - 1;

std::string trace_text(const ModelSpec& spec, const InferenceWeights& weights, const StepRecorder& recorder,
                       const KvPool& pool, RecordedSteps& recorded) {
  if (!weights.stream()) {
    std::vector<TraceEvent> none;
    begin_at_zero(recorded.events, none);
    return chrome_trace(recorded.events, "measured");
  }
  std::vector<TraceEvent> predicted = predicted_steps(spec, *weights.stream(), weights.rates(), recorder, pool);
  begin_at_zero(predicted, recorded.events);
  return chrome_trace(predicted, recorded.events);
}

}  // namespace

void refuse_trace_of_prompts(const Options& options) {
  if (options.has("trace"))
    throw Error(ErrorKind::usage, "--trace: shows three tokens of one prompt; leave --prompts or --trace out");
}

GenerateTrace::GenerateTrace(const Options& options, const ModelDescription& model, const Request& request,
                             int64_t context, bool guesses) {
  if (!options.has("trace")) return;
  path_ = options.text("trace");
  require_trace_place(path_, real_io());
  if (guesses)
    throw Error(
        ErrorKind::usage,
        "--trace: shows steps of one token each, and --speculate and --draft make others; leave them or --trace out");
  refuse_gated_adapter(model, "--trace: not written for them");
  // The samples that follow the first one take a step each before their first token, so their steps have other tokens.
  steps_ = request.num_samples > 1 ? "three steps" : fmt::format("tokens {} to {}", kTracedFrom, kLeastTokens);
  // First what was asked for: a context that is not given follows from it.
  if (request.max_tokens < kLeastTokens)
    throw Error(ErrorKind::usage, "--trace: shows {}, and at most {} will be written; give --max-tokens {} or more",
                steps_, counted(request.max_tokens, "token"), kLeastTokens);
  const int64_t room = context - std::ssize(request.prompt);
  if (room < kLeastTokens)
    throw Error(ErrorKind::usage,
                "--trace: shows {}, and the context of {} leaves {} behind the prompt; give a shorter prompt{}", steps_,
                context, room, context < model_context(model) ? " or more --context" : "");
  recorder_.emplace(RecorderSettings{.first = kTracedFrom - 2, .count = kTracedTokens, .only_single_tokens = true});
}

void GenerateTrace::write(const ModelSpec& spec, const InferenceWeights& weights, const KvPool& pool) const {
  if (!recorder_) return;
  if (!recorder_->complete())
    return log_info("--trace {}: not written, as the text ended before {} had run", make_printable(path_), steps_);
  try {
    RecordedSteps recorded = recorded_steps(spec, *recorder_, pool);
    write_file_atomically(real_io(), path_, trace_text(spec, weights, *recorder_, pool, recorded));
    log_info("trace of {} written to {}: open it in ui.perfetto.dev", steps_, make_printable(path_));
    for (const std::string& note : recorded.notes) log_info("--trace: {}", note);
    if (!recorded.mismatches.empty())
      log_info("--trace: counted bytes differ from the list at {} places, first {}", recorded.mismatches.size(),
               recorded.mismatches[0]);
  } catch (const std::exception& e) { log_info("--trace {}: not written: {}", make_printable(path_), e.what()); }
}

}  // namespace tern
