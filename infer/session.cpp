#include "infer/session.h"

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "infer/running.h"

namespace tern {
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
  return run_requests(std::span(&request, 1), tokenizer, pool, execute, limits, clock, on_text, timings).front();
}

std::vector<std::vector<Sample>> run_requests(std::span<const Request> requests, const Tokenizer* tokenizer,
                                              KvPool& pool, const BatchExecutor& execute, const SessionLimits& limits,
                                              Clock& clock, const OnText& on_text, RunTimings* timings) {
  std::vector<std::unique_ptr<Running>> runs;
  std::vector<uint64_t> streams;
  Scheduler scheduler(pool, limits.scheduler);
  for (const Request& request : requests) {
    check_request(request, limits.context);
    check_sampling(request.sampling);
    const uint64_t first = runs.size();
    const int64_t longest = std::min(limits.context, static_cast<int64_t>(request.prompt.size()) + request.max_tokens);
    for (int64_t i = 0; i < request.num_samples; ++i) {
      runs.push_back(std::make_unique<Running>(make_running(request, static_cast<int64_t>(runs.size()), tokenizer)));
      Sequence& sequence = runs.back()->sequence;
      sequence.id = runs.size() - 1;
      if (i > 0) sequence.shares_prompt_of = first;
      streams.push_back(request.first_sequence + static_cast<uint64_t>(i));
      scheduler.submit(sequence, longest);
    }
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
    const bool only_decode =
        std::all_of(batch.begin(), batch.end(), [](const Work& w) { return w.kind == WorkKind::decode; });
    ++t.iterations;
    t.most_running = std::max(t.most_running, scheduler.num_running());
    size_t row = 0;
    for (const Work& work : batch) {
      if (work.kind == WorkKind::prefill) t.prompt_tokens += work.count;
      if (!work.wants_logits) continue;
      Running& run = *runs[work.sequence->id];
      advance(run, streams[work.sequence->id], logits[row++], limits.context, on_text);
      ++t.generated_tokens;
      t.decode_tokens += only_decode;
      if (t.generated_tokens == 1) t.first_token_s = seconds_between(start_ns, clock.now_ns());
      if (run.sample.reason != FinishReason::none) scheduler.finish(run.sequence);
      cancelled = cancelled || run.cancelled;
    }
    const double seconds = seconds_between(begin_ns, clock.now_ns());
    (only_decode ? t.decode_s : t.prefill_s) += seconds;
    if (only_decode) t.decode_iterations_s.push_back(seconds);
    cancelled = cancelled || (limits.stopped && limits.stopped());
  }
  std::vector<std::vector<Sample>> samples(requests.size());
  for (auto& run : runs) {
    if (run->sample.reason == FinishReason::none) {
      run->sample.reason = FinishReason::cancelled;
      scheduler.finish(run->sequence);
    }
    run->sample.num_preemptions = run->sequence.num_preemptions;
    samples[static_cast<size_t>(run->request - requests.data())].push_back(std::move(run->sample));
  }
  t.copied_pages = pool.num_copied_pages();
  return samples;
}

}  // namespace tern
