#pragma once
// Scores the choices of tasks under a model.

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

/// A prompt and its continuation as tokens.
struct EncodedPair {
  std::vector<int32_t> tokens;  // of both
  int64_t first_scored = 0;     // the index of the continuation's first token
};
/// Encodes as lm-evaluation-harness does: white space at the prompt's end is moved to the continuation, both are encoded together, and the
/// continuation begins after as many tokens as the prompt has when it is encoded alone. A token `prefix` ≥ 0 is put in front of the prompt. If
/// the prompt is empty or all white space, `prefix_if_empty` (BOS or EOS) is put there instead.
/// Errors  usage, naming `place`: an empty prompt and prefix_if_empty < 0; a continuation without a token.
EncodedPair encode_pair(const Tokenizer&, std::string_view prompt, std::string_view continuation, int32_t prefix,
                        int32_t prefix_if_empty, const std::string& place);

/// A window for each choice of each item, in order.
/// Errors  usage: a choice with its prompt is longer than `context` tokens; with both numbers.
std::vector<Window> choice_windows(const Tokenizer&, std::span<const TaskItem>, int64_t context, int32_t prefix,
                                   int32_t prefix_if_empty, const std::string& place);
/// The scores of each item's choices, from the losses of these windows.
std::vector<std::vector<ChoiceScore>> choice_scores(std::span<const TaskItem>, const std::vector<Window>&,
                                                    const std::vector<double>& losses);

/// window_losses for windows of unlike lengths. A model whose rotary table depends on the length runs one window at a time, whatever `batch` is, so
/// that no window depends on its neighbours. `kv` as for window_losses_from.
std::vector<double> ragged_losses(const ModelSpec&, const ModelWeights&, const std::vector<Window>&, int64_t batch,
                                  Arena&, std::optional<KvType> kv = {});

}  // namespace tern
