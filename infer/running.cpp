#include "infer/running.h"

#include <algorithm>

#include "base/error.h"

namespace tern {
namespace {

void emit(Running& run, const std::string& text, const OnText& on_text) {
  if (text.empty()) return;
  run.sample.text += text;
  if (on_text && !on_text(run.index, text)) run.cancelled = true;
}

FinishReason after_token(const Running& run, int64_t context) {
  if (run.stops.stopped()) return FinishReason::stop;
  if (static_cast<int64_t>(run.sample.token_ids.size()) >= run.request->max_tokens) return FinishReason::length;
  if (static_cast<int64_t>(run.sequence.tokens.size()) >= context) return FinishReason::context;
  return FinishReason::none;
}

}  // namespace

Running make_running(const Request& request, int64_t index, const Tokenizer* tokenizer) {
  Running run{.request = &request,
              .index = index,
              .sequence = {},
              .sample = {},
              .decoder = std::nullopt,
              .stops = StopFilter(request.stops)};
  if (tokenizer) run.decoder.emplace(*tokenizer, DecodeOptions{.skip_special = true, .clean_up = {}});
  run.sequence.tokens = request.prompt;
  run.sequence.prompt_tokens = static_cast<int64_t>(request.prompt.size());
  return run;
}

void flush_text(Running& run, const OnText& on_text) {
  if (!run.decoder || run.stops.stopped()) return;
  emit(run, run.stops.push(run.decoder->finish()), on_text);
  if (run.stops.stopped())
    run.sample.reason = FinishReason::stop;
  else
    emit(run, run.stops.finish(), on_text);
}

void advance(Running& run, uint64_t stream, std::vector<float>& logits, int64_t context, const OnText& on_text) {
  const Request& request = *run.request;
  Sequence& sequence = run.sequence;
  std::vector<float> penalized;
  if (has_penalties(request.sampling)) penalized = logits;
  const std::span<float> scores = penalized.empty() ? std::span(logits) : std::span(penalized);
  const auto num_generated = static_cast<int64_t>(run.sample.token_ids.size());
  const int32_t token =
      sample_token(request.sampling, sequence.tokens, num_generated, stream, sequence.tokens.size(), scores);
  run.sample.sum_log_probability += log_probability(logits, token);
  if (std::find(request.eos.begin(), request.eos.end(), token) != request.eos.end()) {
    run.sample.reason = FinishReason::eos;
  } else {
    sequence.tokens.push_back(token);
    run.sample.token_ids.push_back(token);
    if (run.decoder) emit(run, run.stops.push(run.decoder->push(token)), on_text);
    run.sample.reason = after_token(run, context);
  }
  if (run.sample.reason == FinishReason::none) return;
  flush_text(run, on_text);
  run.sample.stop = run.stops.matched();
}

void check_request(const Request& request, int64_t context) {
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  if (prompt == 0)
    throw Error(
        ErrorKind::usage,
        "generate: the prompt has no tokens and the model has no BOS token to start from; give --prompt some text");
  if (prompt >= context)
    throw Error(ErrorKind::usage,
                "generate: the prompt has {} tokens, the context holds {}, which leaves no room to write; shorten the "
                "prompt or "
                "raise --context as far as the model allows (tern never cuts a prompt)",
                prompt, context);
  TERN_CHECK(request.num_samples >= 1 && request.max_tokens >= 1, "run_request: {} samples of {} tokens",
             request.num_samples, request.max_tokens);
}

}  // namespace tern
