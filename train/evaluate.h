#pragma once
// Evaluation during training: the loss on held-out windows. It uses the exact kernels, whichever multiplier the training uses.

#include <cstdint>
#include <functional>
#include <optional>

#include "train/feed.h"

namespace tern {

/// What an evaluation found.
struct Evaluation {
  double loss = 0;  // nats per target token; of pairs: mean nats per pair (train/preference.h)
  int64_t num_targets = 0;
  // loss / ln 2 · (tokens of the data / UTF-8 bytes of its text). None if a mask leaves tokens out, as the number of bytes of the scored
  // tokens is then not known.
  std::optional<double> bits_per_byte;
  std::optional<double> accuracy;        // of pairs alone: the share whose chosen answer is preferred
  int64_t peak_bytes = 0;                // counted peak of activations and temporaries
  std::vector<ByteMismatch> mismatches;  // counted bytes that are not the predicted ones
  bool whole = true;                     // false: `stopped` ended it, and its loss says nothing
};

/// The mean loss over min(num_windows, max_windows) windows of `seq` tokens, evenly spaced over the data, `micro` windows at a time.
/// Order  windows ascending, exact kernels, sums in doubles. So a change of `micro` changes the loss by no more than the rounding of that
///        sum.
/// Stops  `stopped` is asked before each `micro` windows.
/// Errors bad_file: no window has a target token.
Evaluation evaluate(const ModelSpec&, WeightSource, const Feed&, int64_t seq, int64_t max_windows, int64_t micro, DType,
                    const RopeTable*, Arena&, const std::function<bool()>& stopped = {});

}  // namespace tern
