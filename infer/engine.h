#pragma once
// The engine that generates text. Its clients drive it: requests join and leave between steps, and each step runs one batch and
// returns what became certain. It has no locks: one thread calls it, or several one after the other. A thread of its own makes
// masks of grammars while a batch runs; all compute threads draw. Clock and executor are given to it, so that policies can be studied in virtual time.

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "infer/executor.h"
#include "infer/request.h"
#include "infer/running.h"
#include "infer/scheduler.h"
#include "infer/speculate/speculation.h"

namespace tern {

/// What a step made certain of one sample.
struct Event {
  uint64_t request = 0;
  int64_t sample = 0;               // of the request, from 0
  std::optional<DrawnToken> drawn;  // none: the sample was cancelled or failed
  std::string text;                 // to be appended to the sample's earlier text; may be empty
  std::optional<Sample> finished;   // if the sample has ended: the whole sample. It gets no further event
};

/// What the last step did.
struct EngineStep {
  bool ran = false;           // whether there was a batch
  bool only_decodes = false;  // whether the batch had no token of a prompt
  int64_t prompt_tokens = 0, generated_tokens = 0;
  int64_t running = 0;  // samples that run; the batch may leave some of them out
  double seconds = 0;   // with guessing and drawing
};

struct EngineLimits {
  SchedulerLimits scheduler;
  int64_t context = 0;  // the most tokens of a sequence, with its prompt
  // Whether whole pages are kept for later requests that begin with the same tokens, until others need the room.
  bool cache_prefixes = false;
  // A guess is accepted if the draw gives the same token; with SpeculationSettings::fast, by rejection sampling.
  SpeculationSettings speculation = {};
  // Adapters (Request::adapter) under which keys depend on the whole prompt, so that no keys are kept for another prompt.
  std::vector<int> of_prompts = {};
};

/// Runs requests. A sample has the same bits whatever else the engine does: other samples and adapters, chunks, pages,
/// preemption, requests that join, leave or fail, kept prefixes, cached pages, guesses (not with SpeculationSettings::fast).
class Engine {
 public:
  /// Pool, tokenizer and clock must outlive it. Without a tokenizer (null) samples have no text.
  Engine(KvPool&, BatchExecutor, const Tokenizer*, const EngineLimits&, const Clock&);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Lines up a request and returns its number. Samples begin to run in the order in which they were submitted, when there is room.
  /// Errors: those of check_request; does_not_fit: a sample could grow beyond all pages. The engine is then as it was before.
  uint64_t submit(Request);
  /// Runs one batch, if there is something to run. If a sample's logits hold NaN or +inf, only that sample fails (Sample::error is a NotFinite).
  /// Errors: what the executor throws. The batch then has no effect, but sequences may have been admitted or preempted for it. The caller
  /// can cancel requests, or step again.
  std::vector<Event> step();
  /// Ends the samples of a request and gives their pages back at once. The next step returns their last events. False: the request has ended
  /// already.
  bool cancel(uint64_t request);
  /// Whether nothing runs or waits, and step has returned every event.
  bool idle() const { return scheduler_.idle() && events_.empty(); }

  int64_t num_running() const { return scheduler_.num_running(); }
  int64_t num_waiting() const { return scheduler_.num_waiting(); }
  const EngineStep& last_step() const { return last_step_; }
  const KvPool& pool() const { return pool_; }
  /// Null: there is no speculation.
  const SpeculationFigures* speculation() const { return speculation_ ? &speculation_->figures() : nullptr; }
  const PrefixCache* prefix_cache() const { return cache_.get(); }  // null: prefixes are not cached

  /// Makes a place where a sample leaves its keys for the next request that names the place (Request::prefix), so that a conversation computes
  /// only its new tokens. That request takes over the keys of those first tokens that its prompt has in common with the place, but not of
  /// its prompt's last token. Before a sequence is preempted, places give up their pages, those used longest ago first; then more is
  /// computed, with the same bits. One request at a time may name a place (TERN_CHECK). Returns its number.
  uint64_t keep_prefix();
  void drop_prefix(uint64_t prefix);
  /// The number of tokens that have keys in the place.
  int64_t prefix_tokens(uint64_t prefix) const;

 private:
  struct Prefix {
    KvPages kv;
    std::vector<int32_t> tokens;  // those of kv, and perhaps more
    int adapter = kNoAdapter;     // of kv
    int64_t last_used = 0;
    bool busy = false;
  };
  void run_batch();
  void cache_prompts(const Batch&);
  bool keeps_keys(int adapter) const;
  void guess();
  Tensor compute(const Batch&);
  /// A token that was drawn, or why not; neither: it is still to be drawn.
  struct DrawnAhead {
    std::optional<DrawnToken> token = {};
    std::exception_ptr error = {};
  };
  std::vector<DrawnAhead> draw_ahead(const Batch&, const Tensor& logits);
  void verify(const Work&, const Tensor& logits, int64_t row, const DrawnAhead&);
  void draw(Running&, const DrawnAhead&, std::span<float> logits, const JudgedGuess* guess);
  void end(Running&, Event);
  bool reclaim();

  KvPool& pool_;
  BatchExecutor execute_;
  const Tokenizer* tokenizer_;
  EngineLimits limits_;
  const Clock& clock_;
  std::unique_ptr<PrefixCache> cache_;
  Scheduler scheduler_;
  std::optional<Speculation> speculation_;
  std::unordered_map<uint64_t, std::unique_ptr<Running>> samples_;  // by sequence: request + number of the sample
  std::unordered_map<uint64_t, int64_t> left_;                      // by request: samples not yet ended
  std::unordered_map<uint64_t, Prefix> prefixes_;
  std::vector<Event> events_;  // not yet given away
  EngineStep last_step_;
  uint64_t next_sequence_ = 0, next_prefix_ = 0;
  int64_t uses_ = 0;                        // of prefixes
  std::vector<float> rounded_, penalized_;  // one row of logits each
};

}  // namespace tern
