#pragma once
// Log-likelihood of text under a model with gated adapters.

#include "eval/perplexity.h"
#include "model/gated_adapter.h"

namespace tern {

/// As window_losses_from, one window at a time. The first gated.prompt_tokens tokens of a window are its prompt: they set its gates.
/// What of them is scored is scored by the model as it came, since gates that have read a token would know it; the rest by the model
/// with its branches. `weights` have these as adapters 0, 1, … (load_adapter_beside).
std::vector<double> gated_window_losses(size_t first, const ModelSpec&, const ModelWeights& weights,
                                        const GatedAdapter& gated, const std::vector<Window>&,
                                        const std::vector<std::vector<uint8_t>>& masks, Arena&,
                                        const OnLosses& on_losses, std::optional<KvType> kv = {});

}  // namespace tern
