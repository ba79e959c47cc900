#pragma once
// Compares the predictions of two models over the same windows.

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "eval/scores.h"
#include "eval/windows.h"
#include "model/unit.h"

namespace tern {

class GatedTexts;

/// Sums over the scored tokens of one window: RowDifference (eval/scores.h), its squares, and the largest kl. In nats.
struct WindowDifference {
  int64_t tokens = 0, same_top = 0;
  double kl = 0, kl_squares = 0, kl_max = 0, loss = 0, reference_loss = 0;
  double loss_squares = 0, reference_loss_squares = 0;
};
/// A model that is compared.
struct ComparedModel {
  const ModelSpec& spec;
  WeightSource weights;  // each unit is leased once for a batch of windows
  // Keys and values are rounded as a cache of that type keeps them (Rows); none: they are not.
  std::optional<KvType> kv = {};
  // If set: gates of these weights. Each window is then a text of its own, and `batch` is 1.
  const GatedTexts* gated = nullptr;
};
/// Takes the differences of windows first, first + 1, …; returns false to stop.
using OnDifferences = std::function<bool(size_t first, const std::vector<WindowDifference>&)>;
/// Compares the models on the windows from `first` on. `batch` windows run in one forward of each model; then `on_batch` is called. Logits of at
/// most kCompareRows rows exist at a time. `masks`: as for window_losses.
/// Errors  interrupted: `on_batch` returned false; usage: vocabularies of unlike sizes, a token that they lack, a window longer than the learned
///         positions.
void compare_windows(const ComparedModel& reference, const ComparedModel& model, const std::vector<Window>&,
                     const std::vector<std::vector<uint8_t>>& masks, int64_t batch, Arena&, size_t first,
                     const OnDifferences& on_batch);
inline constexpr int64_t kCompareRows = 64;

/// Means over all scored tokens. A member NAME_error is the standard error of the mean.
struct CompareReport {
  int64_t tokens = 0;
  double mean_kl = 0, kl_error = 0, max_kl = 0;                                   // nats per token
  double same_top = 0, same_top_error = 0;                                        // share of tokens
  double loss = 0, loss_error = 0, reference_loss = 0, reference_loss_error = 0;  // nats per token
  double perplexity = 0, reference_perplexity = 0;
};
WindowDifference& operator+=(WindowDifference&, const WindowDifference&);
CompareReport summarize(const WindowDifference&);
CompareReport summarize(const std::vector<WindowDifference>&);

}  // namespace tern
