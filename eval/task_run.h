#pragma once
// Tasks under a model: log-likelihoods of choices, written answers.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/kv_type.h"
#include "eval/scores.h"
#include "eval/task_file.h"
#include "eval/windows.h"
#include "formats/tokenizer/tokenizer.h"
#include "model/weights.h"

namespace tern {

/// A prompt and its continuation as tokens, as lm-evaluation-harness has it: white space at the prompt's end goes to the
/// continuation, both are encoded together, and the number of tokens of the prompt encoded alone is the border.
struct EncodedPair {
  std::vector<int32_t> tokens;  // of both
  int64_t first_scored = 0;     // the continuation's first token
};
/// `prefix` ≥ 0 stands in front of every prompt; but in front of one that is empty or all white space stands
/// `prefix_if_empty` (BOS or EOS) instead.
/// Errors  usage, naming `place`: an empty prompt and prefix_if_empty < 0; a continuation without a token.
EncodedPair encode_pair(const Tokenizer&, std::string_view prompt, std::string_view continuation, int32_t prefix,
                        int32_t prefix_if_empty, const std::string& place);

/// The windows of items [first, end), choice by choice.
/// Errors  usage: a choice that is longer than `context` with its prompt: both numbers.
std::vector<Window> choice_windows(const Tokenizer&, std::span<const TaskItem>, int64_t context, int32_t prefix,
                                   int32_t prefix_if_empty, const std::string& place);
/// Of the windows' losses, in the same order.
std::vector<std::vector<ChoiceScore>> choice_scores(std::span<const TaskItem>, const std::vector<Window>&,
                                                    const std::vector<double>& losses);

/// The losses of windows of any lengths, `batch` at a time; a model whose rotary table depends on the length runs one
/// window at a time, so that no window depends on its neighbours. `kv` as in window_losses_from.
std::vector<double> ragged_losses(const ModelSpec&, const ModelWeights&, const std::vector<Window>&, int64_t batch,
                                  Arena&, std::optional<KvType> kv = {});

}  // namespace tern
