#pragma once
// An engine that others drive: requests join and leave between steps, a step runs one batch and says what became
// certain. It has no threads and no locks: one thread calls it, or several one after the other. The clock and the
// executor are seams, so that policies can be studied in virtual time.

#include <cstdint>
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
  std::optional<DrawnToken> drawn;  // none where the sample was cancelled or failed
  std::string text;                 // to be appended to what came before; may be empty
  std::optional<Sample> finished;   // the sample has ended: the whole of it. No event of it follows
};

/// Of the last step.
struct EngineStep {
  bool ran = false;           // a batch
  bool only_decodes = false;  // no token of a prompt was in it
  int64_t prompt_tokens = 0, generated_tokens = 0, running = 0;
  double seconds = 0;  // with the choice of tokens
};

struct EngineLimits {
  SchedulerLimits scheduler;
  int64_t context = 0;  // tokens of a sequence, with its prompt
  // Whole pages stay for whoever begins with the same tokens, as long as nobody needs the room.
  bool cache_prefixes = false;
  // A guess is accepted exactly where the draw gives the same token.
  SpeculationSettings speculation = {};
  // Adapters (Request::adapter) whose keys follow from the whole prompt: none are kept for another one.
  std::vector<int> of_prompts = {};
};

/// A token of a sample has the same bits whatever else the engine runs: batch-mates and their adapters, chunks, pages,
/// preemption, requests that join, leave or fail, kept prefixes, cached pages, guesses right or wrong.
class Engine {
 public:
  /// Pool and clock must outlive it, and so must the tokenizer; without one there is no text.
  Engine(KvPool&, BatchExecutor, const Tokenizer*, const EngineLimits&, const Clock&);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Lines up a request and returns its number; its samples begin to run in the order of submission, when there is room.
  /// Errors: as check_request; does_not_fit, if a sample could grow beyond all pages. The engine is then as before.
  uint64_t submit(Request);
  /// Runs one batch, if there is something to run. A sample whose logits hold NaN or +inf fails alone (Sample::error
  /// is a NotFinite). Errors: what the executor throws. The batch then has no effect, though sequences may have been
  /// admitted or preempted for it: cancel requests, or step again.
  std::vector<Event> step();
  /// Ends what is left of a request and gives its pages back at once; the last events of its samples come from the next
  /// step. False if it has ended already.
  bool cancel(uint64_t request);
  /// Nothing runs or waits, and every event was given away.
  bool idle() const { return scheduler_.idle() && events_.empty(); }

  int64_t num_running() const { return scheduler_.num_running(); }
  int64_t num_waiting() const { return scheduler_.num_waiting(); }
  const EngineStep& last_step() const { return last_step_; }
  const KvPool& pool() const { return pool_; }
  const SpeculationFigures* speculation() const {
    return speculation_ ? &speculation_->figures() : nullptr;
  }                                                                 // null: none
  const PrefixCache* prefix_cache() const { return cache_.get(); }  // null: EngineLimits has none

  /// A place where a sample leaves its keys for the next request that names it: a conversation computes only what is new.
  /// The next request takes what its prompt has in common with the tokens there, all but the prompt's last token. Pages
  /// that nobody uses are given up, those used longest ago first, before a sequence is preempted: then more is computed,
  /// and no bit differs. One request at a time (TERN_CHECK).
  uint64_t keep_prefix();
  void drop_prefix(uint64_t prefix);
  /// Tokens that have keys there.
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
  void verify(const Work&, const Tensor& logits, int64_t row);
  void draw(Running&, std::span<float> logits, const JudgedGuess* guess);
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
