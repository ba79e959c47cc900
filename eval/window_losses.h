#pragma once
// Log-likelihood of windows of text under a model, by the exact kernels. The numbers depend neither on the batch nor on the number of threads.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "eval/windows.h"
#include "model/unit.h"

namespace tern {

/// Σ −log p over each window's scored tokens, in nats; entry i belongs to window i. `batch` windows run in one forward. `on_window(done)` is
/// called after each forward with the number of windows that are done; if it returns false, the rest is not run (ErrorKind::interrupted).
/// Shapes  a window of n tokens has the rows 0 … n − 2; row i predicts token i + 1.
/// Errors  interrupted; usage: a token that the vocabulary lacks, or a window longer than the model's learned positions; NotFinite: a loss
///         that is NaN or infinite.
std::vector<double> window_losses(const ModelSpec&, const ModelWeights&, const std::vector<Window>&, int64_t batch,
                                  Arena&, const std::function<bool(int64_t)>& on_window = {});
/// The same with masks: token i of window w is scored only if masks[w][i] is not 0 and the window scores it (first_scored). `masks` may be
/// empty: no token is masked.
std::vector<double> window_losses(const ModelSpec&, const ModelWeights&, const std::vector<Window>&,
                                  const std::vector<std::vector<uint8_t>>& masks, int64_t batch, Arena&,
                                  const std::function<bool(int64_t)>& on_window = {});

/// Takes the losses of windows first, first + 1, …; returns false to stop.
using OnLosses = std::function<bool(size_t first, std::span<const double> losses)>;
/// The same from window `first` on, to continue a run that stopped there. `on_losses` gets the losses of each forward. `kv`: keys and values
/// are rounded as a cache of that type keeps them (Rows); none: they are not.
std::vector<double> window_losses_from(size_t first, const ModelSpec&, const ModelWeights&, const std::vector<Window>&,
                                       const std::vector<std::vector<uint8_t>>& masks, int64_t batch, Arena&,
                                       const OnLosses& on_losses, std::optional<KvType> kv = {});

}  // namespace tern
