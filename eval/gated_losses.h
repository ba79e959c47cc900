#pragma once
// Log-likelihood of text and of choices under a model with gated adapters.

#include "eval/window_losses.h"
#include "model/gated_adapter.h"
#include "model/weights.h"

namespace tern {

/// As window_losses_from, one window at a time. The first gated.prompt_tokens tokens of a window are its prompt: they set its gates.
/// What of them is scored is scored by the model as it came, since gates that have read a token would know it; the rest by the model
/// with its branches. `weights` have these as adapters 0, 1, … (load_adapter_beside).
std::vector<double> gated_window_losses(size_t first, const ModelSpec&, const ModelWeights& weights,
                                        const GatedAdapter& gated, const std::vector<Window>&,
                                        const std::vector<std::vector<uint8_t>>& masks, Arena&,
                                        const OnLosses& on_losses, std::optional<KvType> kv = {});

/// Losses of windows whose prompt is what comes before the first scored token, such as choices: it sets the gates of its window. As
/// ragged_losses; windows in a row that have one prompt run together. `weights` as above.
std::vector<double> gated_choice_losses(const ModelSpec&, const ModelWeights& weights, const GatedAdapter& gated,
                                        const std::vector<Window>&, int64_t batch, Arena&,
                                        std::optional<KvType> kv = {});

/// A model with gated adapters that reads texts. It references spec, weights (as above) and adapter.
class GatedTexts {
 public:
  GatedTexts(const ModelSpec&, const ModelWeights&, const GatedAdapter&);
  GatedTexts(const GatedTexts&) = delete;
  GatedTexts& operator=(const GatedTexts&) = delete;
  /// The last layer's rows (T, D) of one text: those that predict tokens of its prompt by the model as it came, the rest by the model
  /// with the gates that the prompt sets.
  Tensor forward(std::span<const int32_t> tokens, const RopeTable*, std::optional<KvType>, const Compute&) const;

 private:
  const ModelSpec& spec_;
  const ModelWeights& weights_;
  const GatedAdapter& gated_;
  ModelWeights strong_;  // handles; their branches act on every row, those of weights_ on none
  GatedBranches branches_;
};

}  // namespace tern
