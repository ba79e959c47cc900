#include "serve/engine_loop.h"

#include <chrono>
#include <utility>

namespace tern {

EngineLoop::EngineLoop(Engine* engine, Embedder* embedder, Sink sink)
    : engine_(engine), embedder_(embedder), sink_(std::move(sink)) {}

void EngineLoop::push(Job job) {
  const std::lock_guard lock(mutex_);
  jobs_.push_back(std::move(job));
  wake_.notify_one();
}

void EngineLoop::submit(uint64_t ticket, Request request) { push({ticket, std::move(request)}); }
void EngineLoop::embed(uint64_t ticket, std::vector<int32_t> tokens) { push({ticket, std::move(tokens)}); }
void EngineLoop::cancel(uint64_t ticket) { push({ticket, Cancel{}}); }

void EngineLoop::start(Job& job) try {
  if (auto* request = std::get_if<Request>(&job.what)) {
    const int64_t samples = request->num_samples;
    const uint64_t id = engine_->submit(std::move(*request));
    request_of_[job.ticket] = id;
    by_request_[id] = {job.ticket, samples};
  } else if (auto* tokens = std::get_if<std::vector<int32_t>>(&job.what)) {
    const uint64_t id = embedder_->submit(std::move(*tokens));
    text_of_[job.ticket] = id;
    by_text_[id] = job.ticket;
  } else {
    stop(job.ticket);
  }
} catch (const std::exception&) { out_.events.push_back({job.ticket, std::current_exception()}); }

void EngineLoop::stop(uint64_t ticket) {
  if (const auto request = request_of_.find(ticket); request != request_of_.end()) {
    engine_->cancel(request->second);
    by_request_.erase(request->second);
    request_of_.erase(request);
  } else if (const auto text = text_of_.find(ticket); text != text_of_.end()) {
    embedder_->cancel(text->second);
    by_text_.erase(text->second);
    text_of_.erase(text);
  }
}

bool EngineLoop::take_jobs(bool may_wait) {
  std::deque<Job> jobs;
  {
    std::unique_lock lock(mutex_);
    if (may_wait) wake_.wait_for(lock, std::chrono::milliseconds(100), [&] { return !jobs_.empty(); });
    jobs.swap(jobs_);
  }
  for (Job& job : jobs) start(job);
  return !jobs.empty();
}

// An engine that throws computes nothing of this batch for anybody: who is in it is told, and those that come later find
// it as it was.
void EngineLoop::step_engine() try {
  for (Event& event : engine_->step()) {
    const auto found = by_request_.find(event.request);
    if (found == by_request_.end()) continue;  // cancelled
    const uint64_t ticket = found->second.ticket;
    if (event.finished) out_.figures.preemptions += event.finished->num_preemptions;
    if (event.finished && --found->second.left == 0) {
      by_request_.erase(found);
      request_of_.erase(ticket);
    }
    out_.events.push_back({ticket, std::move(event)});
  }
  const EngineStep& step = engine_->last_step();
  out_.figures.steps += step.ran;
  out_.figures.prompt_tokens += step.prompt_tokens, out_.figures.generated_tokens += step.generated_tokens;
} catch (const std::exception&) {
  for (const auto& [request, running] : std::exchange(by_request_, {})) {
    engine_->cancel(request);
    out_.events.push_back({running.ticket, std::current_exception()});
  }
  request_of_.clear();
}

void EngineLoop::step_embedder() try {
  for (EmbeddingEvent& event : embedder_->step()) {
    const auto found = by_text_.find(event.text);
    if (found == by_text_.end()) continue;
    text_of_.erase(found->second);
    out_.events.push_back({found->second, std::move(event)});
    by_text_.erase(found);
  }
} catch (const std::exception&) {
  for (const auto& [text, ticket] : std::exchange(by_text_, {})) {
    embedder_->cancel(text);
    out_.events.push_back({ticket, std::current_exception()});
  }
  text_of_.clear();
}

void EngineLoop::report() {
  EngineFigures& f = out_.figures;
  if (engine_) {
    f.running = engine_->num_running(), f.waiting = engine_->num_waiting();
    f.pages = engine_->pool().num_pages();
    if (engine_->speculation()) f.speculation = *engine_->speculation();
    const PrefixCache* cache = engine_->prefix_cache();
    if (f.steps % 16 == 0 || engine_->idle())
      f.held_pages = f.pages - engine_->pool().num_free() - (cache ? cache->num_idle_pages() : 0);
    if (cache) {
      f.cached_pages = cache->num_pages();
      f.prefix_asked = cache->asked_tokens(), f.prefix_found = cache->found_tokens();
    }
  }
  if (embedder_) f.waiting_texts = embedder_->num_waiting();
  sink_({std::exchange(out_.events, {}), f});
}

void EngineLoop::run(const std::function<bool()>& go_on) {
  report();  // the figures of an engine at rest
  while (go_on()) {
    const bool at_rest = (!engine_ || engine_->idle()) && (!embedder_ || embedder_->idle());
    const bool changed = take_jobs(at_rest);
    const bool computes = engine_ && !engine_->idle(), embeds = embedder_ && !embedder_->idle();
    if (computes) step_engine();
    if (embeds) step_embedder();
    if (computes || embeds || changed) report();
  }
}

}  // namespace tern
