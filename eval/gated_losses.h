#pragma once
// The log-likelihood of text and of choices under a model with gated adapters.

#include "eval/window_losses.h"
#include "model/gated_adapter.h"
#include "model/weights.h"

namespace tern {

/// window_losses_from (eval/window_losses.h), one window at a time. The first gated.prompt_tokens tokens of a window are its prompt, which sets
/// its gates. The model without branches scores the tokens of the prompt, as the gates have read them; the model with its branches scores the
/// rest. `weights` have the branches as adapters 0, 1, … (load_adapter_beside).
std::vector<double> gated_window_losses(size_t first, const ModelSpec&, const ModelWeights& weights,
                                        const GatedAdapter& gated, const std::vector<Window>&,
                                        const std::vector<std::vector<uint8_t>>& masks, Arena&,
                                        const OnLosses& on_losses, std::optional<KvType> kv = {});

/// ragged_losses (eval/task_run.h) for windows such as choices: the tokens before the first scored one are the prompt, which sets the window's
/// gates. Neighbouring windows with one prompt run together. `weights` as above.
std::vector<double> gated_choice_losses(const ModelSpec&, const ModelWeights& weights, const GatedAdapter& gated,
                                        const std::vector<Window>&, int64_t batch, Arena&,
                                        std::optional<KvType> kv = {});

/// A model with gated adapters that reads whole texts. Spec, weights (as above) and adapter must outlive it.
class GatedTexts {
 public:
  GatedTexts(const ModelSpec&, const ModelWeights&, const GatedAdapter&);
  GatedTexts(const GatedTexts&) = delete;
  GatedTexts& operator=(const GatedTexts&) = delete;
  /// The last layer's rows (T, D) of one text. Rows that predict tokens of the prompt are those of the model without branches; the other rows are
  /// those of the model with the gates that the prompt sets.
  Tensor forward(std::span<const int32_t> tokens, const RopeTable*, std::optional<KvType>, const Compute&) const;

 private:
  const ModelSpec& spec_;
  const ModelWeights& weights_;
  const GatedAdapter& gated_;
  ModelWeights strong_;  // shares the memory of weights_; its branches act on every row, those of weights_ on none
  GatedBranches branches_;
};

}  // namespace tern
