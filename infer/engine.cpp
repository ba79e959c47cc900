#include "infer/engine.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "model/not_finite.h"

namespace tern {
namespace {

Event event_of(const Running& run) {
  return {.request = run.request_id, .sample = run.number, .drawn = {}, .text = {}, .finished = {}};
}

// Row r in f32: in its place, or rounded into `buffer`.
std::span<float> row_of(const Tensor& logits, int64_t r, std::vector<float>& buffer) {
  const Tensor row = logits.rows_view(r, r + 1);
  if (logits.dtype() == DType::f32) return row.span<float>();
  const auto values = row.span<double>();
  buffer.assign(values.begin(), values.end());
  return buffer;
}

}  // namespace

Engine::Engine(KvPool& pool, BatchExecutor execute, const Tokenizer* tokenizer, const EngineLimits& limits,
               const Clock& clock)
    : pool_(pool),
      execute_(std::move(execute)),
      tokenizer_(tokenizer),
      limits_(limits),
      clock_(clock),
      cache_(limits.cache_prefixes ? std::make_unique<PrefixCache>(pool) : nullptr),
      scheduler_(
          pool, limits.scheduler, [this] { return reclaim(); }, cache_.get()) {}

Engine::~Engine() {
  for (auto& [id, run] : samples_) scheduler_.finish(run->sequence);
  for (auto& [id, prefix] : prefixes_) pool_.release(prefix.kv);
}

uint64_t Engine::submit(Request asked) {
  check_request(asked, limits_.context);
  const auto request = std::make_shared<const Request>(std::move(asked));
  const uint64_t id = next_sequence_;
  const int64_t longest = std::min(limits_.context, static_cast<int64_t>(request->prompt.size()) + request->max_tokens);
  Prefix* prefix = nullptr;
  if (request->prefix) {
    prefix = &prefixes_.at(*request->prefix);
    TERN_CHECK(!prefix->busy, "Engine: two requests at once use prefix {}", *request->prefix);
  }
  for (int64_t i = 0; i < request->num_samples; ++i) {
    auto run = std::make_unique<Running>(make_running(request, i, tokenizer_));
    run->request_id = id;
    run->submitted_ns = clock_.now_ns();
    Sequence& sequence = run->sequence;
    sequence.id = id + static_cast<uint64_t>(i);
    if (i > 0) sequence.shares_prompt_of = id;
    if (prefix) {
      const auto& prompt = request->prompt;
      const auto same =
          std::mismatch(prompt.begin(), prompt.end() - 1, prefix->tokens.begin(), prefix->tokens.end()).first;
      sequence.prefix = &prefix->kv;
      sequence.prefix_tokens = prefix->adapter == request->adapter ? same - prompt.begin() : 0;
    }
    scheduler_.submit(sequence, longest);
    samples_.emplace(sequence.id, std::move(run));
  }
  if (prefix) prefix->busy = true;
  left_.emplace(id, request->num_samples);
  next_sequence_ += static_cast<uint64_t>(request->num_samples);
  return id;
}

std::vector<Event> Engine::step() {
  last_step_ = {};
  if (!scheduler_.idle()) run_batch();
  return std::exchange(events_, {});
}

void Engine::run_batch() {
  const int64_t begin_ns = clock_.now_ns();
  const Batch batch = scheduler_.step();
  const Tensor logits = execute_(batch, pool_);
  scheduler_.computed(batch);
  if (cache_) cache_prompts(batch);
  EngineStep& report = last_step_;
  report.ran = report.only_decodes = true;
  report.running = scheduler_.num_running();
  int64_t row = 0;
  for (const Work& work : batch) {
    if (work.kind == WorkKind::prefill) report.prompt_tokens += work.count, report.only_decodes = false;
    if (!work.wants_logits) continue;
    draw(*samples_.at(work.sequence->id), row_of(logits, row++, rounded_));
    ++report.generated_tokens;
  }
  report.seconds = seconds_between(begin_ns, clock_.now_ns());
}

// Prompts that are read now: who asks the same beside them need not wait for their end.
void Engine::cache_prompts(const Batch& batch) {
  for (const Work& work : batch) {
    const Sequence& s = *work.sequence;
    if (work.begin < s.prompt_tokens && s.kv.length >= s.prompt_tokens) cache_->keep(s.tokens, s.kv, s.adapter);
  }
}

void Engine::draw(Running& run, std::span<float> logits) {
  Event event = event_of(run);
  if (run.sample.first_token_s == 0) run.sample.first_token_s = seconds_between(run.submitted_ns, clock_.now_ns());
  try {
    event.drawn = advance(run, logits, limits_.context, penalized_, event.text);
  } catch (const NotFinite&) {
    run.sample.reason = FinishReason::failed;
    run.sample.error = std::current_exception();
  } catch (const Error&) {  // of its grammar
    run.sample.reason = FinishReason::failed;
    run.sample.error = std::current_exception();
  }
  if (run.sample.reason != FinishReason::none) return end(run, std::move(event));
  events_.push_back(std::move(event));
}

// The sample has a reason: its keys go to the prefix it names, or back to the pool.
void Engine::end(Running& run, Event event) {
  Sequence& sequence = run.sequence;
  run.sample.num_preemptions = sequence.num_preemptions;
  run.sample.reused_tokens = sequence.reused_tokens;
  if (sequence.prefix) {
    Prefix& prefix = prefixes_.at(*run.request->prefix);
    if (sequence.running) {
      prefix.kv = std::exchange(sequence.kv, {});
      prefix.tokens = sequence.tokens;
      prefix.adapter = sequence.adapter;
    }
    prefix.tokens.resize(static_cast<size_t>(prefix.kv.length));
    prefix.last_used = ++uses_;
    prefix.busy = false;
  }
  if (cache_ && sequence.running) cache_->keep(sequence.tokens, sequence.kv, sequence.adapter);
  scheduler_.finish(sequence);
  event.finished = std::move(run.sample);
  if (--left_.at(run.request_id) == 0) left_.erase(run.request_id);
  samples_.erase(sequence.id);
  events_.push_back(std::move(event));
}

bool Engine::cancel(uint64_t request) {
  if (!left_.contains(request)) return false;
  for (uint64_t sequence = request; left_.contains(request); ++sequence) {
    const auto found = samples_.find(sequence);
    if (found == samples_.end()) continue;
    Running& run = *found->second;
    Event event = event_of(run);
    flush_text(run, event.text);
    run.sample.reason = FinishReason::cancelled;
    end(run, std::move(event));
  }
  return true;
}

bool Engine::reclaim() {
  if (cache_ && cache_->reclaim()) return true;
  Prefix* oldest = nullptr;
  for (auto& [id, prefix] : prefixes_)
    if (!prefix.kv.pages.empty() && (!oldest || prefix.last_used < oldest->last_used)) oldest = &prefix;
  if (!oldest) return false;
  pool_.release(oldest->kv);
  return true;
}

uint64_t Engine::keep_prefix() {
  prefixes_.emplace(next_prefix_, Prefix{});
  return next_prefix_++;
}

void Engine::drop_prefix(uint64_t prefix) {
  Prefix& dropped = prefixes_.at(prefix);
  TERN_CHECK(!dropped.busy, "Engine: prefix {} is dropped while a request uses it", prefix);
  pool_.release(dropped.kv);
  prefixes_.erase(prefix);
}

int64_t Engine::prefix_tokens(uint64_t prefix) const { return prefixes_.at(prefix).kv.length; }

}  // namespace tern
