#pragma once
// Decides which tokens run in the next iteration. Requests join and leave between iterations. Tokens of prompts and decoded tokens share one
// budget. If KV pages run out, the sequence that came last is preempted: its pages are given back, and it is computed again later.
// Source: Yu et al. 2022 "Orca" (recalled). It knows no model, so that its executor can be a real or a simulated one.

#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include "infer/kv_cache.h"
#include "infer/prefix_cache.h"

namespace tern {

/// Tokens of a prompt, or a token that follows.
enum class WorkKind : uint8_t { prefill, decode };

/// A sequence as the scheduler sees it.
struct Sequence {
  uint64_t id = 0;
  std::vector<int32_t> tokens;  // of the prompt, then the generated ones
  int64_t prompt_tokens = 0;
  int adapter = kNoAdapter;  // under which its keys are computed
  KvPages kv;                // its first kv.length tokens have keys
  /// Guesses of the tokens that follow. While the sequence decodes and pages are free, they are computed with its last token.
  std::vector<int32_t> guesses;
  int64_t arrival = 0;  // the order of submission; of running sequences the last is preempted first
  /// A sequence with the same prompt. While that one computes its prompt, this one waits; then it shares the pages.
  uint64_t shares_prompt_of = kNone;
  /// Pages of an earlier sequence, whose first prefix_tokens tokens this sequence has too. It takes them over when it begins to run. Until then
  /// they may be given up.
  KvPages* prefix = nullptr;
  int64_t prefix_tokens = 0;
  int64_t reused_tokens = 0;  // set by the scheduler: the tokens that had keys when the sequence began to run
  bool running = false;       // set by the scheduler: whether the sequence has pages
  int64_t num_preemptions = 0;

  static constexpr uint64_t kNone = ~uint64_t{0};
  int64_t pending() const { return static_cast<int64_t>(tokens.size()) - kv.length; }
  bool decoding() const { return pending() == 1 && kv.length >= prompt_tokens; }
};

/// One sequence's part of a batch.
struct Work {
  Sequence* sequence;
  int64_t begin, count;  // tokens [begin, begin + count) of the sequence, its guesses counted behind its end
  WorkKind kind;
  bool wants_logits;    // whether this reaches the sequence's end, so that the logits of its last token are needed
  int64_t guesses = 0;  // how many of Sequence::guesses are in `count`; each has logits of its own
};
using Batch = std::vector<Work>;

struct SchedulerLimits {
  int64_t token_budget = 512;  // the most tokens of an iteration
  int64_t chunk = 512;         // the most prompt tokens of one sequence in an iteration
  int64_t max_running = 256;   // sequences
};

/// A step takes time that is linear in the number of running sequences and of those that it admits.
class Scheduler {
 public:
  /// `reclaim` is called when pages are missing, before a sequence is preempted or has to wait: it frees some pages that belong to no running
  /// sequence, or returns false. With `cache`, a sequence whose first tokens have pages there starts from those pages. The cache must outlive
  /// the scheduler.
  Scheduler(KvPool& pool, SchedulerLimits limits, std::function<bool()> reclaim = {}, PrefixCache* cache = nullptr)
      : pool_(pool), limits_(limits), reclaim_(std::move(reclaim)), cache_(cache) {}
  /// Lines up a sequence that may grow to max_tokens tokens. No other unfinished sequence may have its id; it must live until `finish`.
  /// Errors: does_not_fit: it can never fit; with the pages that it needs and those that there are.
  void submit(Sequence&, int64_t max_tokens);
  /// The next batch, for whose tokens pages are reserved; empty only if no sequence is left. The caller runs it, then calls `computed`.
  Batch step();
  /// Says that the batch ran, so that its tokens have keys. For accepted guesses the caller sets KvPages::length itself.
  void computed(const Batch&);
  /// Frees the pages and forgets the sequence.
  void finish(Sequence&);
  bool idle() const { return waiting_.empty() && running_.empty(); }
  /// The running sequences, in the order of their arrival.
  std::span<Sequence* const> running() const { return running_; }
  int64_t num_running() const { return static_cast<int64_t>(running_.size()); }
  int64_t num_waiting() const { return static_cast<int64_t>(waiting_.size()); }

 private:
  /// A batch that is being made.
  struct Draft {
    Batch decodes, prompts;
    int64_t budget;
  };
  bool reserve(KvPages&, int64_t count);
  bool waits_for_sibling(const Sequence&) const;
  void take_shared(Sequence&);
  bool admit(int64_t budget);
  bool schedule(Sequence&, Draft&);
  void preempt_tail(Draft&);
  void add_guesses(Work&);

  KvPool& pool_;
  SchedulerLimits limits_;
  std::function<bool()> reclaim_;
  PrefixCache* cache_;
  std::vector<Sequence*> running_;  // by arrival
  std::deque<Sequence*> waiting_;   // by arrival: all of them after those that run
  std::unordered_map<uint64_t, Sequence*> live_;
  int64_t next_arrival_ = 0;
};

}  // namespace tern
