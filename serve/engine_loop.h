#pragma once
// The loop of the one thread that computes. It drives the engine and the embedder of each model with the requests that other threads hand in, and
// hands out what became certain. No other thread touches engines and embedders.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <span>
#include <unordered_map>
#include <variant>
#include <vector>

#include "infer/embedder.h"
#include "infer/engine.h"

namespace tern {

/// What happened to a ticket, which is the number of a request or a text: an event of its request, a vector, or an error that ended it.
struct LoopEvent {
  uint64_t ticket = 0;
  std::variant<Event, EmbeddingEvent, std::exception_ptr> what;
};
/// The state of a model's engine and embedder after a step, and what they did since the start.
struct EngineFigures {
  int64_t running = 0, waiting = 0;     // samples
  int64_t waiting_texts = 0;            // texts that wait for vectors
  int64_t pages = 0, cached_pages = 0;  // all pages; those that the prefix cache keeps
  int64_t held_pages = 0;               // by samples; counted at every 16th step and when nothing runs
  int64_t prefix_asked = 0;             // tokens of prompts that were looked up in the prefix cache
  int64_t prefix_found = 0;             // tokens that were found there
  SpeculationFigures speculation;
  int64_t steps = 0, prompt_tokens = 0, generated_tokens = 0, preemptions = 0;
};
/// What the loop hands out after steps.
struct LoopReport {
  std::vector<LoopEvent> events;
  std::vector<EngineFigures> figures;  // by model
};
/// What computes one model: an engine if it writes, an embedder if it makes vectors.
struct ModelDrive {
  Engine* engine = nullptr;
  Embedder* embedder = nullptr;
};

class EngineLoop {
 public:
  using Sink = std::function<void(LoopReport)>;
  /// `sink` is called on the loop's thread. Engines and embedders must outlive the loop.
  EngineLoop(std::span<const ModelDrive>, Sink);

  /// Hands in a request or a text. Any thread may call it. `ticket`: a number that the caller chooses and uses once. A ticket
  /// ends with a vector, with an error, or when each sample has had Event::finished. `model`: an index of the loop's models.
  void submit(uint64_t ticket, size_t model, Request);
  void embed(uint64_t ticket, size_t model, std::vector<int32_t> tokens);
  /// Cancels a ticket. Events of it may still come, or not. It does nothing if the ticket has ended.
  void cancel(uint64_t ticket, size_t model);

  /// Runs steps until `go_on` returns false. `go_on` is called between steps, and ten times a second while there is nothing to do. Models that
  /// have something to do take turns, one batch each.
  void run(const std::function<bool()>& go_on);

 private:
  struct Cancel {};
  struct Job {
    uint64_t ticket;
    size_t model;
    std::variant<Request, std::vector<int32_t>, Cancel> what;
  };
  struct Running {
    uint64_t ticket;
    int64_t left;  // samples
  };
  struct Model {
    ModelDrive drive;
    EngineFigures figures;
    std::unordered_map<uint64_t, uint64_t> request_of, text_of;  // by ticket
    std::unordered_map<uint64_t, Running> by_request;
    std::unordered_map<uint64_t, uint64_t> by_text;
    bool computes() const { return drive.engine && !drive.engine->idle(); }
    bool embeds() const { return drive.embedder && !drive.embedder->idle(); }
  };
  void push(Job);
  bool take_jobs(bool may_wait);  // returns whether there were any
  void start(Job&);
  void step_engine(Model&);
  void step_embedder(Model&);
  void report();

  std::vector<Model> models_;
  Sink sink_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Job> jobs_;  // under mutex_
  std::vector<LoopEvent> events_;
};

}  // namespace tern
