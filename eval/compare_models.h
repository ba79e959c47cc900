#pragma once
// Two models over the same windows: how far their predictions are apart.

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "eval/scores.h"
#include "eval/windows.h"
#include "model/unit.h"

namespace tern {

class GatedTexts;

/// Sums over the scored tokens of one window.
struct WindowDifference {
  int64_t tokens = 0, same_top = 0;
  double kl = 0, kl_squares = 0, kl_max = 0, loss = 0, reference_loss = 0;
  double loss_squares = 0, reference_loss_squares = 0;
};
struct ComparedModel {
  const ModelSpec& spec;
  WeightSource weights;               // lent ones are asked for once in each batch of windows
  std::optional<KvType> kv = {};      // keys and values as a cache of that type keeps them (Rows)
  const GatedTexts* gated = nullptr;  // of these weights: each window is a text of its own, and `batch` is 1
};
using OnDifferences = std::function<bool(size_t first, const std::vector<WindowDifference>&)>;
/// One forward of each model per `batch` windows; logits of at most kCompareRows rows exist at a time.
/// `masks` as in window_losses; may be empty. Begins with window `first`; `on_batch(first, differences)` after each;
/// false stops (then ErrorKind::interrupted).
/// Errors  usage: vocabularies of different sizes, a token outside them, a window beyond learned positions.
void compare_windows(const ComparedModel& reference, const ComparedModel& model, const std::vector<Window>&,
                     const std::vector<std::vector<uint8_t>>& masks, int64_t batch, Arena&, size_t first,
                     const OnDifferences& on_batch);
inline constexpr int64_t kCompareRows = 64;

struct CompareReport {
  int64_t tokens = 0;
  double mean_kl = 0, kl_error = 0, max_kl = 0;  // nats per token; the standard error of the mean
  double same_top = 0, same_top_error = 0;       // share of tokens
  double loss = 0, loss_error = 0, reference_loss = 0, reference_loss_error = 0;  // nats per token
  double perplexity = 0, reference_perplexity = 0;
};
WindowDifference& operator+=(WindowDifference&, const WindowDifference&);
CompareReport summarize(const WindowDifference&);
CompareReport summarize(const std::vector<WindowDifference>&);

}  // namespace tern
