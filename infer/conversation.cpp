#include "infer/conversation.h"

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "infer/running.h"

namespace tern {

Conversation::Conversation(KvPool& pool, BatchExecutor execute, int64_t context, int64_t chunk)
    : pool_(pool), execute_(std::move(execute)), context_(context), chunk_(chunk) {}

Conversation::~Conversation() { pool_.release(kv_); }

// Gives back the pages behind the first `length` tokens.
void Conversation::keep(int64_t length) {
  KvPages kept = pool_.fork(kv_, length);
  pool_.release(kv_);
  kv_ = std::move(kept);
  cached_.resize(static_cast<size_t>(length));
}

Sample Conversation::answer(const Request& request, const Tokenizer* tokenizer, Clock& clock, const OnText& on_text,
                            const std::function<bool()>& stopped, TurnTimings* timings) {
  check_request(request, context_);
  check_sampling(request.sampling);
  TERN_CHECK(request.num_samples == 1, "Conversation: {} samples", request.num_samples);
  const auto same = std::mismatch(request.prompt.begin(), request.prompt.end() - 1, cached_.begin(), cached_.end());
  keep(same.first - request.prompt.begin());

  TurnTimings local;
  TurnTimings& t = timings ? *timings : local;
  t = {};
  t.reused_tokens = kv_.length;
  Running run = make_running(request, 0, tokenizer);
  run.sequence.kv = std::move(kv_);
  Sequence& sequence = run.sequence;
  while (run.sample.reason == FinishReason::none) {
    const bool decodes = sequence.decoding();
    const int64_t count = std::min(sequence.pending(), decodes ? int64_t{1} : chunk_);
    TERN_CHECK(pool_.reserve(sequence.kv, count), "Conversation: the pool has no page for token {}",
               sequence.kv.length + count);
    const Batch batch = {{&sequence, sequence.kv.length, count, decodes ? WorkKind::decode : WorkKind::prefill,
                          count == sequence.pending()}};
    const int64_t begin_ns = clock.now_ns();
    std::vector<std::vector<float>> logits = execute_(batch, pool_);
    sequence.kv.length += count;
    if (!decodes) t.prompt_tokens += count;
    if (batch[0].wants_logits) {
      advance(run, request.first_sequence, logits[0], context_, on_text);
      ++t.generated_tokens;
    }
    (decodes ? t.decode_s : t.prefill_s) += seconds_between(begin_ns, clock.now_ns());
    if (run.sample.reason == FinishReason::none && (run.cancelled || (stopped && stopped()))) {
      flush_text(run, on_text);
      run.sample.reason = FinishReason::cancelled;
    }
  }
  kv_ = std::move(sequence.kv);
  cached_.assign(sequence.tokens.begin(), sequence.tokens.begin() + kv_.length);
  return std::move(run.sample);
}

}  // namespace tern
