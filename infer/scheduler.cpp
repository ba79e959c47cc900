#include "infer/scheduler.h"

#include <algorithm>

#include "base/error.h"

namespace tern {

void Scheduler::submit(Sequence& sequence, int64_t max_tokens) {
  TERN_CHECK(sequence.prompt_tokens >= 1 && sequence.pending() >= 1,
             "Scheduler::submit: sequence {} has no token to run", sequence.id);
  const int64_t page_tokens = pool_.shape().page_tokens;
  const int64_t needed = (max_tokens + page_tokens - 1) / page_tokens;
  if (needed > pool_.num_pages())
    throw Error(ErrorKind::does_not_fit,
                "KV cache: a sequence of up to {} tokens needs {} pages of {}, the cache has {}; lower "
                "--max-tokens or raise --context",
                max_tokens, needed, page_tokens, pool_.num_pages());
  sequence.arrival = next_arrival_++;
  waiting_.push_back(&sequence);
}

Sequence* Scheduler::find(uint64_t id) {
  for (Sequence* s : running_)
    if (s->id == id) return s;
  for (Sequence* s : waiting_)
    if (s->id == id) return s;
  return nullptr;
}

void Scheduler::preempt(Sequence& victim) {
  pool_.release(victim.kv);
  ++victim.num_preemptions;
  std::erase(running_, &victim);
  const auto later =
      std::find_if(waiting_.begin(), waiting_.end(), [&](const Sequence* s) { return s->arrival > victim.arrival; });
  waiting_.insert(later, &victim);
}

// Frees pages from the tail until `count` more tokens of `sequence` fit. False if the sequence itself is the tail.
bool Scheduler::reserve_or_preempt(Sequence& sequence, int64_t count) {
  while (!pool_.reserve(sequence.kv, count)) {
    Sequence* tail = running_.back();
    if (tail == &sequence) return false;
    preempt(*tail);
  }
  return true;
}

// Moves the head of the queue to the running ones. A sibling of a prompt forks its pages up to the last prompt token,
// which it runs itself: its logits are its own, with the same bits (kernels are row-invariant).
bool Scheduler::admit(int64_t budget) {
  if (waiting_.empty() || budget == 0 || num_running() >= limits_.max_running) return false;
  Sequence* next = waiting_.front();
  if (next->shares_prompt_of != Sequence::kNone && next->kv.length == 0) {
    if (Sequence* owner = find(next->shares_prompt_of)) {
      const int64_t shared = std::min(owner->prompt_tokens, next->prompt_tokens) - 1;
      const bool owner_runs = std::find(running_.begin(), running_.end(), owner) != running_.end();
      if (owner_runs && owner->kv.length < shared) return false;  // wait for its prefill
      if (owner_runs && shared > 0) next->kv = pool_.fork(owner->kv, shared);
    }
  }
  if (!pool_.reserve(next->kv, std::min({next->pending(), limits_.chunk, budget}))) {
    pool_.release(next->kv);
    return false;
  }
  waiting_.pop_front();
  running_.push_back(next);
  return true;
}

Batch Scheduler::step() {
  Batch batch;
  int64_t budget = limits_.token_budget;
  const auto num_running_before = running_.size();
  const auto schedule = [&](Sequence& s) {
    const int64_t count = std::min({s.pending(), budget, s.decoding() ? int64_t{1} : limits_.chunk});
    if (count == 0 || !reserve_or_preempt(s, count)) return false;
    batch.push_back(
        {&s, s.kv.length, count, s.decoding() ? WorkKind::decode : WorkKind::prefill, count == s.pending()});
    budget -= count;
    return true;
  };
  // Decoding sequences first (one token each), then prefills in order of arrival. Preemption only takes from the tail,
  // which comes after the one that asks; one that was scheduled already must leave the batch again.
  for (const bool decoding : {true, false}) {
    const std::vector<Sequence*> order = running_;
    for (Sequence* s : order) {
      const bool runs = std::find(running_.begin(), running_.end(), s) != running_.end();
      if (!runs || s->finished || s->decoding() != decoding || budget == 0) continue;
      if (!schedule(*s) && budget > 0) preempt(*s);
      std::erase_if(batch, [&](const Work& w) {
        const bool gone = std::find(running_.begin(), running_.end(), w.sequence) == running_.end();
        if (gone) budget += w.count;
        return gone;
      });
    }
  }
  // Nobody joins in an iteration that had to send somebody away, unless nobody is left.
  if (running_.size() == num_running_before || running_.empty())
    while (admit(budget)) schedule(*running_.back());
  TERN_CHECK(!batch.empty() || idle(), "Scheduler::step: {} running and {} waiting sequences, none can run",
             num_running(), num_waiting());
  return batch;
}

void Scheduler::computed(const Batch& batch) {
  for (const Work& work : batch) work.sequence->kv.length += work.count;
}

void Scheduler::finish(Sequence& sequence) {
  sequence.finished = true;
  pool_.release(sequence.kv);
  std::erase(running_, &sequence);
  std::erase(waiting_, &sequence);
}

}  // namespace tern
