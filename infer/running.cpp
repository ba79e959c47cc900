#include "infer/running.h"

#include <algorithm>

#include "base/error.h"

namespace tern {
namespace {

void emit(Running& run, const std::string& certain, std::string& text) {
  run.sample.text += certain;
  text += certain;
}

// What a token adds to the text as far as it is certain.
std::string decoded(Running& run, int32_t id) {
  for (const auto& [spoken, text] : run.request->spoken)
    if (spoken == id) return run.decoder->finish() + text;
  return run.decoder->push(id);
}

FinishReason after_token(Running& run, int64_t context) {
  if (run.stops.stopped()) return FinishReason::stop;
  if (run.constrained && run.constrained->is_done()) return FinishReason::eos;
  if (static_cast<int64_t>(run.sample.token_ids.size()) >= run.request->max_tokens) return FinishReason::length;
  if (static_cast<int64_t>(run.sequence.tokens.size()) >= context) return FinishReason::context;
  return FinishReason::none;
}

}  // namespace

Running make_running(std::shared_ptr<const Request> request, int64_t number, const Tokenizer* tokenizer) {
  Running run{.request = std::move(request),
              .number = number,
              .sequence = {},
              .sample = {},
              .decoder = std::nullopt,
              .stops = StopFilter({})};
  run.stops = StopFilter(run.request->stops);
  if (run.request->constraint) run.constrained.emplace(run.request->constraint);
  if (tokenizer) run.decoder.emplace(*tokenizer, DecodeOptions{.skip_special = true, .clean_up = {}});
  run.sequence.tokens = run.request->prompt;
  run.sequence.adapter = run.request->adapter;
  run.sequence.prompt_tokens = static_cast<int64_t>(run.request->prompt.size());
  return run;
}

void flush_text(Running& run, std::string& text) {
  if (!run.decoder || run.stops.stopped()) return;
  emit(run, run.stops.push(run.decoder->finish()), text);
  if (run.stops.stopped())
    run.sample.reason = FinishReason::stop;
  else
    emit(run, run.stops.finish(), text);
}

DrawnToken draw_token(Running& run, std::span<float> logits, std::vector<float>& scratch, const JudgedGuess* guess) {
  const Request& request = *run.request;
  const Sequence& sequence = run.sequence;
  std::span<float> scores = logits;
  if (has_penalties(request.sampling) || run.constrained) {
    scratch.assign(logits.begin(), logits.end());
    scores = scratch;
  }
  if (run.constrained) run.constrained->mask(scores, request.eos);
  const auto num_generated = static_cast<int64_t>(run.sample.token_ids.size());
  DrawnToken drawn;
  const uint64_t stream = stream_of(run), position = sequence.tokens.size();
  drawn.id = guess ? accept_or_draw(request.sampling, sequence.tokens, num_generated, stream, position, guess->token,
                                    *guess->odds, scores)
                   : sample_token(request.sampling, sequence.tokens, num_generated, stream, position, scores);
  drawn.log_probability = log_probability(logits, drawn.id);
  if (request.num_likeliest > 0) drawn.likeliest = likeliest(logits, request.num_likeliest);
  return drawn;
}

void append_token(Running& run, const DrawnToken& drawn, int64_t context, std::string& text) {
  const Request& request = *run.request;
  Sequence& sequence = run.sequence;
  run.sample.sum_log_probability += drawn.log_probability;
  if (std::find(request.eos.begin(), request.eos.end(), drawn.id) != request.eos.end()) {
    run.sample.reason = FinishReason::eos;
  } else {
    if (run.constrained) run.constrained->push(drawn.id);
    sequence.tokens.push_back(drawn.id);
    run.sample.token_ids.push_back(drawn.id);
    if (run.decoder) emit(run, run.stops.push(decoded(run, drawn.id)), text);
    run.sample.reason = after_token(run, context);
  }
  if (run.sample.reason == FinishReason::none) return;
  flush_text(run, text);
  run.sample.stop = run.stops.matched();
}

}  // namespace tern
