#include "infer/session.h"

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"

namespace tern {
namespace {

// One sample on its way.
struct Running {
  Sequence sequence;
  Sample sample;
  std::optional<StreamingDecoder> decoder;
  StopFilter stops;
  bool cancelled = false;
};

void emit(Running& run, int64_t index, std::string text, const OnText& on_text) {
  if (text.empty()) return;
  run.sample.text += text;
  if (on_text && !on_text(index, text)) run.cancelled = true;
}

FinishReason after_token(const Request& request, const Running& run, int64_t context) {
  if (run.stops.stopped()) return FinishReason::stop;
  if (static_cast<int64_t>(run.sample.token_ids.size()) >= request.max_tokens) return FinishReason::length;
  if (static_cast<int64_t>(run.sequence.tokens.size()) >= context) return FinishReason::context;
  return FinishReason::none;
}

// Takes one logits row of a sample: draws, appends, streams. Sets sample.reason when the sample ends.
void advance(const Request& request, Running& run, int64_t index, std::vector<float>& logits, int64_t context,
             const OnText& on_text) {
  Sequence& sequence = run.sequence;
  const std::vector<float> plain = logits;  // the sampler's penalties change its own copy
  const auto num_generated = static_cast<int64_t>(run.sample.token_ids.size());
  const int32_t token =
      sample_token(request.sampling, sequence.tokens, num_generated,
                   request.first_sequence + static_cast<uint64_t>(index), sequence.tokens.size(), logits);
  run.sample.sum_log_probability += log_probability(plain, token);
  if (std::find(request.eos.begin(), request.eos.end(), token) != request.eos.end()) {
    run.sample.reason = FinishReason::eos;
  } else {
    sequence.tokens.push_back(token);
    run.sample.token_ids.push_back(token);
    if (run.decoder) emit(run, index, run.stops.push(run.decoder->push(token)), on_text);
    run.sample.reason = after_token(request, run, context);
  }
  if (run.sample.reason == FinishReason::none) return;
  if (run.decoder && !run.stops.stopped()) {
    emit(run, index, run.stops.push(run.decoder->finish()), on_text);
    if (run.stops.stopped())
      run.sample.reason = FinishReason::stop;
    else
      emit(run, index, run.stops.finish(), on_text);
  }
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

}  // namespace

std::string_view name_of(FinishReason reason) {
  switch (reason) {
    case FinishReason::none:
      return "none";
    case FinishReason::eos:
      return "eos";
    case FinishReason::stop:
      return "stop";
    case FinishReason::length:
      return "length";
    case FinishReason::context:
      return "context";
    case FinishReason::cancelled:
      return "cancelled";
  }
  return "none";
}

BatchExecutor model_executor(const ModelSpec& spec, const ModelWeights& weights, const RopeTable* rope, Arena& arena) {
  return [&spec, &weights, rope, &arena](const Batch& batch, const KvPool& pool) {
    std::vector<int32_t> tokens, logit_rows;
    std::vector<const KvPages*> caches;
    Rows rows;
    rows.rope = rope;
    rows.starts.push_back(0);
    for (const Work& work : batch) {
      const auto first = work.sequence->tokens.begin() + work.begin;
      tokens.insert(tokens.end(), first, first + work.count);
      for (int64_t i = 0; i < work.count; ++i) rows.positions.push_back(static_cast<int32_t>(work.begin + i));
      rows.starts.push_back(static_cast<int64_t>(tokens.size()));
      caches.push_back(&work.sequence->kv);
      if (work.wants_logits) logit_rows.push_back(static_cast<int32_t>(tokens.size()) - 1);
    }
    rows.tokens = tokens;
    KvView view = pool.view(caches);
    const Compute compute{arena, Multiply::exact};
    const Tensor hidden = model_forward(spec, weights, rows, &view, compute);
    std::vector<std::vector<float>> result;
    if (logit_rows.empty()) return result;
    const Tensor logits = head_logits(spec, weights, hidden, logit_rows, compute);
    for (size_t r = 0; r < logit_rows.size(); ++r) {
      const auto row = static_cast<int64_t>(r);
      if (logits.dtype() == DType::f64) {
        const auto values = logits.rows_view(row, row + 1).span<double>();
        result.emplace_back(values.begin(), values.end());
      } else {
        const auto values = logits.rows_view(row, row + 1).span<float>();
        result.emplace_back(values.begin(), values.end());
      }
    }
    return result;
  };
}

std::vector<Sample> run_request(const Request& request, const Tokenizer* tokenizer, KvPool& pool,
                                const BatchExecutor& execute, const SessionLimits& limits, Clock& clock,
                                const OnText& on_text, RunTimings* timings) {
  check_request(request, limits.context);
  check_sampling(request.sampling);
  const auto prompt_tokens = static_cast<int64_t>(request.prompt.size());
  const int64_t longest = std::min(limits.context, prompt_tokens + request.max_tokens);

  std::vector<std::unique_ptr<Running>> runs;
  Scheduler scheduler(pool, limits.scheduler);
  for (int64_t i = 0; i < request.num_samples; ++i) {
    auto run = std::make_unique<Running>(Running{{}, {}, std::nullopt, StopFilter(request.stops)});
    if (tokenizer) run->decoder.emplace(*tokenizer, DecodeOptions{.skip_special = true, .clean_up = {}});
    run->sequence.id = static_cast<uint64_t>(i);
    run->sequence.tokens = request.prompt;
    run->sequence.prompt_tokens = prompt_tokens;
    if (i > 0) run->sequence.shares_prompt_of = 0;
    scheduler.submit(run->sequence, longest);
    runs.push_back(std::move(run));
  }

  RunTimings local;
  RunTimings& t = timings ? *timings : local;
  t = {};
  const int64_t start_ns = clock.now_ns();
  bool cancelled = false;
  while (!cancelled && !scheduler.idle()) {
    const Batch batch = scheduler.step();
    const int64_t begin_ns = clock.now_ns();
    std::vector<std::vector<float>> logits = execute(batch, pool);
    scheduler.computed(batch);
    const double seconds = seconds_between(begin_ns, clock.now_ns());
    const bool only_decode =
        std::all_of(batch.begin(), batch.end(), [](const Work& w) { return w.kind == WorkKind::decode; });
    (only_decode ? t.decode_s : t.prefill_s) += seconds;
    ++t.iterations;
    t.most_running = std::max(t.most_running, scheduler.num_running());
    size_t row = 0;
    for (const Work& work : batch) {
      if (work.kind == WorkKind::prefill) t.prompt_tokens += work.count;
      if (!work.wants_logits) continue;
      const auto index = static_cast<int64_t>(work.sequence->id);
      Running& run = *runs[static_cast<size_t>(index)];
      advance(request, run, index, logits[row++], limits.context, on_text);
      ++t.generated_tokens;
      if (t.generated_tokens == 1) t.first_token_s = seconds_between(start_ns, clock.now_ns());
      if (run.sample.reason != FinishReason::none) scheduler.finish(run.sequence);
      cancelled = cancelled || run.cancelled;
    }
    cancelled = cancelled || (limits.stopped && limits.stopped());
  }
  std::vector<Sample> samples;
  for (auto& run : runs) {
    if (run->sample.reason == FinishReason::none) {
      run->sample.reason = FinishReason::cancelled;
      scheduler.finish(run->sequence);
    }
    run->sample.num_preemptions = run->sequence.num_preemptions;
    samples.push_back(std::move(run->sample));
  }
  t.copied_pages = pool.num_copied_pages();
  return samples;
}

}  // namespace tern
