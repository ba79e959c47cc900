#include "infer/scheduler.h"

#include <algorithm>

#include "base/error.h"

namespace tern {
namespace {

// Where a sequence stands in a list by arrival; the end if it does not.
template <class List>
auto place_of(List& list, const Sequence& sequence) {
  const auto at = std::lower_bound(list.begin(), list.end(), sequence.arrival,
                                   [](const Sequence* s, int64_t arrival) { return s->arrival < arrival; });
  return at != list.end() && *at == &sequence ? at : list.end();
}

}  // namespace

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
  TERN_CHECK(live_.emplace(sequence.id, &sequence).second, "Scheduler::submit: two sequences {}", sequence.id);
  sequence.arrival = next_arrival_++;
  waiting_.push_back(&sequence);
}

// The victim is the last in arrival of those that run, so it comes before all that wait.
void Scheduler::preempt_tail(Draft& draft) {
  Sequence& victim = *running_.back();
  running_.pop_back();
  pool_.release(victim.kv);
  victim.running = false;
  ++victim.num_preemptions;
  waiting_.push_front(&victim);
  if (draft.decodes.empty() || draft.decodes.back().sequence != &victim) return;
  draft.decodes.pop_back();
  ++draft.budget;
}

// Puts the next tokens of a running sequence into the draft. Where pages are short, sequences that came later are
// preempted; a sequence that comes last itself is preempted, and false is returned.
bool Scheduler::schedule(Sequence& s, Draft& draft) {
  const bool decodes = s.decoding();
  const int64_t count = decodes ? 1 : std::min({s.pending(), draft.budget, limits_.chunk});
  TERN_CHECK(count > 0, "Scheduler::step: sequence {} runs and has no token to run", s.id);
  while (!reserve(s.kv, count)) {
    const bool is_tail = running_.back() == &s;
    preempt_tail(draft);
    if (is_tail) return false;
  }
  const Work work{&s, s.kv.length, count, decodes ? WorkKind::decode : WorkKind::prefill, count == s.pending()};
  (decodes ? draft.decodes : draft.prompts).push_back(work);
  draft.budget -= count;
  return true;
}

bool Scheduler::reserve(KvPages& kv, int64_t count) {
  while (!pool_.reserve(kv, count))
    if (!reclaim_ || !reclaim_()) return false;
  return true;
}

// Gives a sequence that is about to run the pages that it need not compute: a kept prefix, what the cache has of its
// tokens, or the prompt of a sibling that runs, up to the last prompt token, which it runs itself: its logits are its own, with the same bits (kernels are
// row-invariant).
void Scheduler::take_shared(Sequence& next) {
  if (next.prefix) {
    pool_.truncate(*next.prefix, std::min(next.prefix_tokens, next.prefix->length));
    std::swap(next.kv, *next.prefix);
  } else if (const auto owner = live_.find(next.shares_prompt_of); owner != live_.end() && owner->second->running) {
    const int64_t shared = std::min(owner->second->prompt_tokens, next.prompt_tokens) - 1;
    if (shared > 0) next.kv = pool_.fork(owner->second->kv, shared);
  } else if (cache_) {
    next.kv = cache_->match(next.tokens, next.adapter);
  }
}

// Whether the prompt that a sequence shares is still being read.
bool Scheduler::waits_for_sibling(const Sequence& next) const {
  const auto owner = live_.find(next.shares_prompt_of);
  if (owner == live_.end() || !owner->second->running) return false;
  return owner->second->kv.length < std::min(owner->second->prompt_tokens, next.prompt_tokens) - 1;
}

// Moves the head of the queue to the running ones.
bool Scheduler::admit(int64_t budget) {
  if (waiting_.empty() || budget == 0 || num_running() >= limits_.max_running) return false;
  Sequence& next = *waiting_.front();
  if (waits_for_sibling(next)) return false;
  take_shared(next);
  if (!reserve(next.kv, std::min({next.pending(), limits_.chunk, budget}))) {
    if (next.prefix) std::swap(next.kv, *next.prefix);
    pool_.release(next.kv);
    return false;
  }
  waiting_.pop_front();
  next.running = true;
  next.reused_tokens = next.kv.length;
  running_.push_back(&next);
  return true;
}

// As many as free pages hold: nobody gives a page up for a guess.
void Scheduler::add_guesses(Work& work) {
  work.guesses = static_cast<int64_t>(work.sequence->guesses.size());
  while (work.guesses > 0 && !pool_.reserve(work.sequence->kv, work.count + work.guesses)) --work.guesses;
  work.count += work.guesses;
}

Batch Scheduler::step() {
  Draft draft{.decodes = {}, .prompts = {}, .budget = limits_.token_budget};
  const size_t num_before = running_.size();
  // Sequences that decode come first (one token each), then prompts, both by arrival. Who is preempted stands behind
  // the one that asks, so that the lists only lose their ends.
  for (const bool decoding : {true, false})
    for (size_t i = 0; i < running_.size() && draft.budget > 0; ++i)
      if (running_[i]->decoding() == decoding) schedule(*running_[i], draft);
  // Nobody joins in a step that had to send somebody away, unless nobody is left.
  if (running_.size() == num_before || running_.empty())
    while (admit(draft.budget)) schedule(*running_.back(), draft);
  for (Work& work : draft.decodes) add_guesses(work);
  draft.decodes.insert(draft.decodes.end(), draft.prompts.begin(), draft.prompts.end());
  TERN_CHECK(!draft.decodes.empty() || idle(), "Scheduler::step: {} running and {} waiting sequences, none can run",
             num_running(), num_waiting());
  return std::move(draft.decodes);
}

void Scheduler::computed(const Batch& batch) {
  for (const Work& work : batch) work.sequence->kv.length += work.count - work.guesses;
}

void Scheduler::finish(Sequence& sequence) {
  pool_.release(sequence.kv);
  if (const auto at = place_of(running_, sequence); at != running_.end()) running_.erase(at);
  if (const auto at = place_of(waiting_, sequence); at != waiting_.end()) waiting_.erase(at);
  sequence.running = false;
  live_.erase(sequence.id);
}

}  // namespace tern
