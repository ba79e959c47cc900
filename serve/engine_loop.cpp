#include "serve/engine_loop.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace tern {
namespace {

void bring_up_to_date(EngineFigures& f, const Engine& engine) {
  f.running = engine.num_running(), f.waiting = engine.num_waiting();
  f.pages = engine.pool().num_pages();
  if (engine.speculation()) f.speculation = *engine.speculation();
  const PrefixCache* cache = engine.prefix_cache();
  if (f.steps % 16 == 0 || engine.idle())
    f.held_pages = f.pages - engine.pool().num_free() - (cache ? cache->num_idle_pages() : 0);
  if (!cache) return;
  f.cached_pages = cache->num_pages();
  f.prefix_asked = cache->asked_tokens(), f.prefix_found = cache->found_tokens();
}

}  // namespace

EngineLoop::EngineLoop(std::span<const ModelDrive> drives, Sink sink) : sink_(std::move(sink)) {
  for (const ModelDrive& drive : drives) models_.emplace_back().drive = drive;
}

void EngineLoop::push(Job job) {
  const std::lock_guard lock(mutex_);
  jobs_.push_back(std::move(job));
  wake_.notify_one();
}

void EngineLoop::submit(uint64_t ticket, size_t model, Request request) { push({ticket, model, std::move(request)}); }
void EngineLoop::embed(uint64_t ticket, size_t model, std::vector<int32_t> tokens) {
  push({ticket, model, std::move(tokens)});
}
void EngineLoop::cancel(uint64_t ticket, size_t model) { push({ticket, model, Cancel{}}); }

void EngineLoop::start(Job& job) try {
  Model& m = models_.at(job.model);
  if (auto* request = std::get_if<Request>(&job.what)) {
    const int64_t samples = request->num_samples;
    const uint64_t id = m.drive.engine->submit(std::move(*request));
    m.request_of[job.ticket] = id;
    m.by_request[id] = {job.ticket, samples};
  } else if (auto* tokens = std::get_if<std::vector<int32_t>>(&job.what)) {
    const uint64_t id = m.drive.embedder->submit(std::move(*tokens));
    m.text_of[job.ticket] = id;
    m.by_text[id] = job.ticket;
  } else if (const auto running = m.request_of.find(job.ticket); running != m.request_of.end()) {
    m.drive.engine->cancel(running->second);
    m.by_request.erase(running->second);
    m.request_of.erase(running);
  } else if (const auto text = m.text_of.find(job.ticket); text != m.text_of.end()) {
    m.drive.embedder->cancel(text->second);
    m.by_text.erase(text->second);
    m.text_of.erase(text);
  }
} catch (const std::exception&) { events_.push_back({job.ticket, std::current_exception()}); }

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
void EngineLoop::step_engine(Model& m) try {
  EngineFigures& figures = m.figures;
  for (Event& event : m.drive.engine->step()) {
    const auto found = m.by_request.find(event.request);
    if (found == m.by_request.end()) continue;  // cancelled
    const uint64_t ticket = found->second.ticket;
    if (event.finished) figures.preemptions += event.finished->num_preemptions;
    if (event.finished && --found->second.left == 0) {
      m.by_request.erase(found);
      m.request_of.erase(ticket);
    }
    events_.push_back({ticket, std::move(event)});
  }
  const EngineStep& step = m.drive.engine->last_step();
  figures.steps += step.ran;
  figures.prompt_tokens += step.prompt_tokens, figures.generated_tokens += step.generated_tokens;
} catch (const std::exception&) {
  for (const auto& [request, running] : std::exchange(m.by_request, {})) {
    m.drive.engine->cancel(request);
    events_.push_back({running.ticket, std::current_exception()});
  }
  m.request_of.clear();
}

void EngineLoop::step_embedder(Model& m) try {
  for (EmbeddingEvent& event : m.drive.embedder->step()) {
    const auto found = m.by_text.find(event.text);
    if (found == m.by_text.end()) continue;
    m.text_of.erase(found->second);
    events_.push_back({found->second, std::move(event)});
    m.by_text.erase(found);
  }
} catch (const std::exception&) {
  for (const auto& [text, ticket] : std::exchange(m.by_text, {})) {
    m.drive.embedder->cancel(text);
    events_.push_back({ticket, std::current_exception()});
  }
  m.text_of.clear();
}

void EngineLoop::report() {
  LoopReport out{.events = std::exchange(events_, {}), .figures = {}};
  for (Model& m : models_) {
    if (m.drive.engine) bring_up_to_date(m.figures, *m.drive.engine);
    if (m.drive.embedder) m.figures.waiting_texts = m.drive.embedder->num_waiting();
    out.figures.push_back(m.figures);
  }
  sink_(std::move(out));
}

void EngineLoop::run(const std::function<bool()>& go_on) {
  report();  // the figures of engines at rest
  while (go_on()) {
    const bool at_rest = std::ranges::none_of(models_, [](const Model& m) { return m.computes() || m.embeds(); });
    bool changed = take_jobs(at_rest);
    for (Model& m : models_) {
      const bool computes = m.computes(), embeds = m.embeds();
      if (computes) step_engine(m);
      if (embeds) step_embedder(m);
      if (!computes && !embeds) continue;
      report();  // before the next model's turn
      changed = false;
    }
    if (changed) report();
  }
}

}  // namespace tern
