#pragma once
// One sequence that grows turn by turn and keeps its keys: only tokens that differ from what is cached are computed.

#include <cstdint>
#include <vector>

#include "infer/session.h"

namespace tern {

struct TurnTimings {
  int64_t reused_tokens = 0, prompt_tokens = 0, generated_tokens = 0;  // prompt_tokens: computed, not reused
  double prefill_s = 0, decode_s = 0;                                  // with the choice of the tokens and their text
};

class Conversation {
 public:
  /// The pool must outlive it and hold `context` tokens. `chunk`: prompt tokens per forward.
  Conversation(KvPool& pool, BatchExecutor execute, int64_t context, int64_t chunk);
  ~Conversation();
  Conversation(const Conversation&) = delete;
  Conversation& operator=(const Conversation&) = delete;

  /// Continues request.prompt, the whole conversation so far as tokens. Tokens that stand at the same places as the
  /// cached ones are not computed again (the last one always is: its logits are wanted). The answer's bits are those of
  /// run_request.
  /// `stopped` is asked after every forward; true ends the answer as cancelled, and what is computed stays cached.
  /// Errors  usage: as run_request; num_samples must be 1 (TERN_CHECK).
  Sample answer(const Request&, const Tokenizer*, Clock&, const OnText&, const std::function<bool()>& stopped,
                TurnTimings* timings);

  /// Tokens whose keys are kept.
  const std::vector<int32_t>& cached() const { return cached_; }

 private:
  void keep(int64_t length);

  KvPool& pool_;
  BatchExecutor execute_;
  int64_t context_, chunk_;
  KvPages kv_;
  std::vector<int32_t> cached_;  // kv_.length of them
};

}  // namespace tern
