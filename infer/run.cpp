#include "infer/run.h"

#include <algorithm>

namespace tern {
namespace {

void add_step(const EngineStep& step, RunTimings& t) {
  if (!step.ran) return;
  ++t.iterations;
  t.prompt_tokens += step.prompt_tokens, t.generated_tokens += step.generated_tokens;
  t.most_running = std::max(t.most_running, step.running);
  (step.only_decodes ? t.decode_s : t.prefill_s) += step.seconds;
  if (!step.only_decodes) return;
  t.decode_tokens += step.generated_tokens;
  t.decode_iterations_s.push_back(step.seconds);
}

void cancel_all(Engine& engine, std::span<const uint64_t> ids) {
  for (const uint64_t id : ids) engine.cancel(id);
}

}  // namespace

std::vector<std::vector<Sample>> run_requests(Engine& engine, std::span<const Request> requests, const OnText& on_text,
                                              const std::function<bool()>& stopped, RunTimings* timings,
                                              const OnSample& on_sample) {
  std::vector<std::vector<Sample>> samples;
  std::vector<uint64_t> ids;
  RunTimings t;
  try {
    for (const Request& request : requests) {
      ids.push_back(engine.submit(request));
      samples.emplace_back(static_cast<size_t>(request.num_samples));
    }
    for (bool stop = false; !engine.idle();) {
      const bool was_stopped = stop;
      for (Event& event : engine.step()) {
        const auto request = static_cast<size_t>(std::lower_bound(ids.begin(), ids.end(), event.request) - ids.begin());
        const int64_t index = static_cast<int64_t>(event.request - ids.front()) + event.sample;
        if (!event.text.empty() && on_text && !on_text(index, event.text)) stop = true;
        if (!event.finished) continue;
        if (event.finished->error) std::rethrow_exception(event.finished->error);
        if (request == 0 && event.sample == 0) t.first_token_s = event.finished->first_token_s;
        Sample& sample = samples[request][static_cast<size_t>(event.sample)] = std::move(*event.finished);
        if (!stop && on_sample && !on_sample(index, sample)) stop = true;
      }
      add_step(engine.last_step(), t);
      stop = stop || (stopped && stopped());
      if (stop && !was_stopped) cancel_all(engine, ids);
    }
  } catch (...) {
    cancel_all(engine, ids);
    if (!engine.idle()) engine.step();  // nothing runs any more: the last events
    throw;
  }
  t.copied_pages = engine.pool().num_copied_pages();
  if (timings) *timings = t;
  return samples;
}

std::vector<Sample> run_request(Engine& engine, const Request& request, const OnText& on_text,
                                const std::function<bool()>& stopped, RunTimings* timings, const OnSample& on_sample) {
  return std::move(run_requests(engine, {&request, 1}, on_text, stopped, timings, on_sample).front());
}

}  // namespace tern
