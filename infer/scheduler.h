#pragma once
// Which tokens run in the next iteration: requests join and leave between iterations; one token budget, prefill and
// decode not distinguished. When KV pages run out, the sequence that came last is preempted (dropped and recomputed).
// Source: Yu et al. 2022 "Orca" (recalled). It knows no model: it runs against a real or a simulated executor.

#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include "infer/kv_cache.h"
#include "infer/prefix_cache.h"

namespace tern {

enum class WorkKind : uint8_t { prefill, decode };

/// A sequence as the scheduler sees it. tokens: prompt, then what was generated.
struct Sequence {
  uint64_t id = 0;
  std::vector<int32_t> tokens;
  int64_t prompt_tokens = 0;
  int adapter = kNoAdapter;  // its keys are good for this adapter alone
  KvPages kv;                // kv.length tokens have keys
  /// Guessed to follow: while it decodes and there are free pages, they are computed with its last token.
  std::vector<int32_t> guesses;
  int64_t arrival = 0;  // order of submission; who came last is preempted first
  /// A sibling whose prompt this one shares: while the sibling prefills, this one waits, then forks its pages.
  uint64_t shares_prompt_of = kNone;
  /// Pages kept from before, of which the first prefix_tokens tokens are this sequence's too: it takes them over when it
  /// begins to run. Until then they may be given up.
  KvPages* prefix = nullptr;
  int64_t prefix_tokens = 0;
  int64_t reused_tokens = 0;  // the scheduler's: tokens that had keys when it began to run
  bool running = false;       // the scheduler's: it has pages
  int64_t num_preemptions = 0;

  static constexpr uint64_t kNone = ~uint64_t{0};
  int64_t pending() const { return static_cast<int64_t>(tokens.size()) - kv.length; }
  bool decoding() const { return pending() == 1 && kv.length >= prompt_tokens; }
};

struct Work {
  Sequence* sequence;
  int64_t begin, count;  // tokens [begin, begin + count) of the sequence
  WorkKind kind;
  bool wants_logits;    // of its last token: the sequence is computed up to its end
  int64_t guesses = 0;  // of count: the first of Sequence::guesses, behind the end; each with logits of its own
};
using Batch = std::vector<Work>;

struct SchedulerLimits {
  int64_t token_budget = 512;  // tokens of one iteration
  int64_t chunk = 512;         // most prompt tokens of one sequence in one iteration
  int64_t max_running = 256;
};

/// A step takes time linear in the running sequences, and in those it admits.
class Scheduler {
 public:
  /// `reclaim` is asked for pages before a sequence is preempted or kept waiting for want of them: it frees some pages
  /// that belong to no running sequence, or returns false. With `cache`, a sequence whose first tokens
  /// have pages there starts from those pages; the cache must outlive the scheduler.
  Scheduler(KvPool& pool, SchedulerLimits limits, std::function<bool()> reclaim = {}, PrefixCache* cache = nullptr)
      : pool_(pool), limits_(limits), reclaim_(std::move(reclaim)), cache_(cache) {}
  /// Lines up a sequence that may grow to max_tokens. Its id is its own among those not finished; it must live until it
  /// is finished. Errors: does_not_fit if it can never fit, with the pages it needs and those there are.
  void submit(Sequence&, int64_t max_tokens);
  /// The next batch; empty only when nothing is left. Pages are reserved; the caller runs it, then calls `computed`.
  Batch step();
  /// The batch ran: its tokens have keys now. For accepted guesses the caller sets KvPages::length itself.
  void computed(const Batch&);
  /// Frees the pages and forgets the sequence.
  void finish(Sequence&);
  bool idle() const { return waiting_.empty() && running_.empty(); }
  /// By arrival.
  std::span<Sequence* const> running() const { return running_; }
  int64_t num_running() const { return static_cast<int64_t>(running_.size()); }
  int64_t num_waiting() const { return static_cast<int64_t>(waiting_.size()); }

 private:
  /// A step on its way.
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
