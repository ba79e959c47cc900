#pragma once
// Evaluation during training: the loss on held-out windows, by exact kernels, whatever the training multiplies with.

#include <cstdint>
#include <functional>
#include <optional>

#include "train/feed.h"

namespace tern {

struct Evaluation {
  double loss = 0;  // nats per target token
  int64_t num_targets = 0;
  // loss / ln 2 · (tokens of the data / UTF-8 bytes of its text); nullopt where a mask leaves tokens out, as it is not known
  // how many bytes the scored tokens have
  std::optional<double> bits_per_byte;
  std::optional<double> accuracy;        // of pairs (train/preference.h), whose loss is a mean over pairs
  int64_t peak_bytes = 0;                // counted, activations and temporaries
  std::vector<ByteMismatch> mismatches;  // counted against predicted
  bool whole = true;                     // false: `stopped` ended it, and its loss says nothing
};

/// The mean loss over min(num_windows, max_windows) windows, evenly spaced over the data, `micro` at a time.
/// Order  windows ascending, exact kernels, sums in doubles: the loss
///        depends on `micro` by no more than the rounding of that
///        sum.
/// Stops  `stopped` is asked before each `micro` windows.
/// Errors bad_file: no target token among the windows.
Evaluation evaluate(const ModelSpec&, WeightSource, const Feed&, int64_t seq, int64_t max_windows, int64_t micro, DType,
                    const RopeTable*, Arena&, const std::function<bool()>& stopped = {});

}  // namespace tern
