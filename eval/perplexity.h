#pragma once
// Log-likelihood of text under a model, by windows, with the exact kernels: the figures depend neither on batch nor on
// threads.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "eval/windows.h"
#include "model/unit.h"

namespace tern {

/// Σ -log p of each window's scored tokens, in nats. Windows are put `batch` at a time into one ragged forward.
/// `on_window(done)` after each forward; false stops (then ErrorKind::interrupted).
/// Shapes  windows run tokens[0 … n-2]; row i predicts token i+1.
/// Errors  usage: a token outside the vocabulary; a window longer than the model's learned positions. NotFinite: a
/// loss.
std::vector<double> window_losses(const ModelSpec&, const ModelWeights&, const std::vector<Window>&, int64_t batch,
                                  Arena&, const std::function<bool(int64_t)>& on_window = {});
/// The same with a mask: token i of window w is scored only if mask[w][i] != 0 (beside first_scored).
std::vector<double> window_losses(const ModelSpec&, const ModelWeights&, const std::vector<Window>&,
                                  const std::vector<std::vector<uint8_t>>& masks, int64_t batch, Arena&,
                                  const std::function<bool(int64_t)>& on_window = {});

using OnLosses = std::function<bool(size_t first, std::span<const double> losses)>;
/// The same from window `first` on, where an earlier run stopped, and with its numbers; on_losses gets the losses of each batch. `kv`:
/// keys and values as a cache of that type keeps them (Rows).
std::vector<double> window_losses_from(size_t first, const ModelSpec&, const ModelWeights&, const std::vector<Window>&,
                                       const std::vector<std::vector<uint8_t>>& masks, int64_t batch, Arena&,
                                       const OnLosses& on_losses, std::optional<KvType> kv = {});

/// The figures of one evaluation, with every denominator: what a reader needs to judge whether two are comparable.
struct PerplexityReport {
  std::string convention, bos_rule;
  int64_t window = 0, stride = 0, num_windows = 0, num_tokens = 0, num_scored = 0, num_pages = 0;
  int64_t num_words = 0, num_bytes = 0;                                // words only for harness; 0: unknown
  double sum_loss = 0;                                                 // nats over scored tokens
  double perplexity = 0;                                               // per token, as the convention takes its mean
  double word_perplexity = 0, byte_perplexity = 0, bits_per_byte = 0;  // 0: has no meaning here
};
/// Fills the derived figures from sums: perplexity = exp(sum_loss / num_scored) for all but gptq, whose mean is of
/// window means.
void derive_figures(PerplexityReport&, const std::vector<Window>&, const std::vector<double>& losses);

}  // namespace tern
