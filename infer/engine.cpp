#include "infer/engine.h"

#include <algorithm>
#include <system_error>
#include <thread>
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

// Makes masks on a thread of its own until it goes; that of a text which it could not make is made when it is asked for.
class MasksBeside {
 public:
  explicit MasksBeside(std::vector<ConstrainedText*> texts) {
    if (texts.empty()) return;
    try {
      thread_ = std::jthread([texts = std::move(texts)] {
        for (ConstrainedText* text : texts)
          if (!text->is_prepared()) text->prepare();
      });
    } catch (const std::system_error&) {}  // no thread to be had
  }

 private:
  std::jthread thread_;
};

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
          pool, limits.scheduler, [this] { return reclaim(); }, cache_.get()) {
  if (limits.speculation.proposer) speculation_.emplace(limits.speculation, clock);
}

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
      const bool good = prefix->adapter == request->adapter && keeps_keys(request->adapter);
      sequence.prefix_tokens = good ? same - prompt.begin() : 0;
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
  if (speculation_) guess();
  const Batch batch = scheduler_.step();
  const int64_t compute_ns = clock_.now_ns();
  const Tensor logits = compute(batch);
  const int64_t draw_ns = clock_.now_ns();
  scheduler_.computed(batch);
  if (cache_) cache_prompts(batch);
  EngineStep& report = last_step_;
  report.ran = report.only_decodes = true;
  report.running = scheduler_.num_running();
  const std::vector<DrawnAhead> ahead = draw_ahead(batch, logits);
  int64_t row = 0, rows = 0, decoding = 0, guessed = 0, places = 0;
  for (size_t i = 0; i < batch.size(); ++i) {
    const Work& work = batch[i];
    rows += work.count, guessed += work.guesses;
    decoding += work.kind == WorkKind::decode, places += work.wants_logits;
    if (work.kind == WorkKind::prefill) report.prompt_tokens += work.count, report.only_decodes = false;
    if (!work.wants_logits) continue;
    verify(work, logits, row, ahead[i]);
    row += 1 + work.guesses;
  }
  const int64_t end_ns = clock_.now_ns();
  report.seconds = seconds_between(begin_ns, end_ns);
  if (!speculation_) return;
  if (report.only_decodes)
    speculation_->observe(static_cast<int64_t>(batch.size()), row, report.generated_tokens,
                          seconds_between(compute_ns, draw_ns), seconds_between(draw_ns, end_ns));
  else
    speculation_->observe_prompts(rows, seconds_between(compute_ns, draw_ns), decoding, guessed,
                                  report.generated_tokens - places);
}

// Asks for what may follow the sequences that decode, as far as a text may still grow.
void Engine::guess() {
  std::vector<ProposalAsk> asks;
  std::vector<Sequence*> asked;
  int64_t decoding = 0;
  for (Sequence* s : scheduler_.running()) {
    s->guesses.clear();
    if (!s->decoding()) continue;
    ++decoding;
    const Running& run = *samples_.at(s->id);
    const auto generated = static_cast<int64_t>(run.sample.token_ids.size()), length = std::ssize(s->tokens);
    const int64_t most = std::min(run.request->max_tokens - generated, limits_.context - length) - 1;
    if (most < 1) continue;
    asks.push_back({.sequence = s->id,
                    .tokens = s->tokens,
                    .most = most,
                    .sampling = &run.request->sampling,
                    .num_generated = generated,
                    .stream = stream_of(run)});
    asked.push_back(s);
  }
  std::vector<std::vector<int32_t>> guesses = speculation_->propose(asks, decoding);
  for (size_t i = 0; i < asked.size(); ++i) asked[i]->guesses = std::move(guesses[i]);
}

// Guesses stand behind their sequences while the batch runs. What may be drawn by a grammar does not depend on scores: it is found
// meanwhile, but behind guesses.
Tensor Engine::compute(const Batch& batch) {
  struct Lengthened {
    const Batch& batch;
    explicit Lengthened(const Batch& b) : batch(b) {
      for (const Work& w : batch)
        w.sequence->tokens.insert(w.sequence->tokens.end(), w.sequence->guesses.begin(),
                                  w.sequence->guesses.begin() + w.guesses);
    }
    ~Lengthened() {
      for (const Work& w : batch) w.sequence->tokens.resize(w.sequence->tokens.size() - static_cast<size_t>(w.guesses));
    }
  } const lengthened(batch);
  std::vector<ConstrainedText*> unmasked;
  for (const Work& work : batch)
    if (auto& text = samples_.at(work.sequence->id)->constrained; work.wants_logits && text && !text->is_prepared())
      unmasked.push_back(&*text);
  const MasksBeside masks(std::move(unmasked));
  return execute_(batch, pool_);
}

// The first token of each work, by all threads: rows know nothing of each other. Left to `verify` are rows where a guess is judged, and
// those of grammars, which keep the masks that they make.
std::vector<Engine::DrawnAhead> Engine::draw_ahead(const Batch& batch, const Tensor& logits) {
  std::vector<DrawnAhead> ahead(batch.size());
  std::vector<std::pair<size_t, int64_t>> rows;  // of works, of logits
  int64_t row = 0;
  for (size_t i = 0; i < batch.size(); ++i) {
    const Work& work = batch[i];
    if (!work.wants_logits) continue;
    const uint64_t id = work.sequence->id;
    const bool judged = work.guesses > 0 && speculation_->odds(id, 0);
    if (!judged && !samples_.at(id)->constrained) rows.emplace_back(i, row);
    row += 1 + work.guesses;
  }
  if (rows.size() < 2) return ahead;
#pragma omp parallel for schedule(dynamic, 1)
  for (const auto& [i, at] : rows) {
    std::vector<float> rounded, penalized;
    try {
      Running& run = *samples_.at(batch[i].sequence->id);
      ahead[i].token = draw_token(run, row_of(logits, at, rounded), penalized);
    } catch (...) { ahead[i].error = std::current_exception(); }
  }
  return ahead;
}

// Draws behind the last token, and behind each guess that is what was drawn. Keys of other guesses go.
void Engine::verify(const Work& work, const Tensor& logits, int64_t row, const DrawnAhead& ahead) {
  Sequence& sequence = *work.sequence;
  Running& run = *samples_.at(sequence.id);
  const uint64_t id = sequence.id;
  const std::vector<int32_t> guesses = std::exchange(sequence.guesses, {});
  std::vector<int32_t> drawn;
  bool ended = false;
  for (;; ++sequence.kv.length) {
    const size_t k = drawn.size();
    const Odds* odds = static_cast<int64_t>(k) < work.guesses ? speculation_->odds(id, k) : nullptr;
    const JudgedGuess guess{.token = odds ? guesses[k] : 0, .odds = odds};
    draw(run, k == 0 ? ahead : DrawnAhead{}, row_of(logits, row++, rounded_), odds ? &guess : nullptr);
    ++last_step_.generated_tokens;
    const Event& event = events_.back();
    if (event.drawn) drawn.push_back(event.drawn->id);
    ended = event.finished.has_value();
    if (ended || std::ssize(drawn) > work.guesses || drawn.back() != guesses[drawn.size() - 1]) break;
  }
  if (!speculation_) return;
  if (!ended && work.guesses > 0) pool_.truncate(sequence.kv, sequence.kv.length);
  if (work.kind == WorkKind::decode) speculation_->drawn(id, drawn, work.guesses);
  if (ended) speculation_->forget(id);
}

// Prompts that are read now: who asks the same beside them need not wait for their end.
void Engine::cache_prompts(const Batch& batch) {
  for (const Work& work : batch) {
    const Sequence& s = *work.sequence;
    if (work.begin < s.prompt_tokens && s.kv.length >= s.prompt_tokens && keeps_keys(s.adapter))
      cache_->keep(s.tokens, s.kv, s.adapter);
  }
}

bool Engine::keeps_keys(int adapter) const { return !std::ranges::count(limits_.of_prompts, adapter); }

// Leaves one event. Where it is the last of the sample, `run` is gone.
void Engine::draw(Running& run, const DrawnAhead& ahead, std::span<float> logits, const JudgedGuess* guess) {
  Event event = event_of(run);
  if (run.sample.first_token_s == 0) run.sample.first_token_s = seconds_between(run.submitted_ns, clock_.now_ns());
  try {
    if (ahead.error) std::rethrow_exception(ahead.error);
    DrawnToken drawn = ahead.token ? *ahead.token : draw_token(run, logits, penalized_, guess);
    append_token(run, drawn, limits_.context, event.text);
    event.drawn = std::move(drawn);
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
      pool_.truncate(sequence.kv, sequence.kv.length);  // no page that only guesses have
      prefix.kv = std::exchange(sequence.kv, {});
      prefix.tokens = sequence.tokens;
      prefix.adapter = sequence.adapter;
    }
    prefix.tokens.resize(static_cast<size_t>(prefix.kv.length));
    prefix.last_used = ++uses_;
    prefix.busy = false;
  }
  if (cache_ && sequence.running && keeps_keys(sequence.adapter))
    cache_->keep(sequence.tokens, sequence.kv, sequence.adapter);
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
    if (speculation_) speculation_->forget(sequence);
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
