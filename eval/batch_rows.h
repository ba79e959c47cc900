#pragma once
// Lays windows end to end, some at a time, for a model's forward. For eval/ alone.

#include <cstdint>
#include <vector>

#include "eval/windows.h"
#include "model/unit.h"

namespace tern {

/// The rows of some windows, T in all.
struct BatchRows {
  std::vector<int32_t> tokens, targets;  // (T) each; a negative target is not scored
  std::vector<int64_t> starts;           // the first row of each window, and at the end T
};
/// Batches of `batch` windows. Windows and masks (as for window_losses) must outlive it.
class WindowBatches {
 public:
  WindowBatches(const std::vector<Window>&, const std::vector<std::vector<uint8_t>>& masks, int64_t batch);
  /// Errors  usage: the vocabulary lacks a token, or a window is longer than the model's learned positions.
  void check(const ModelSpec&) const;
  /// The rotary table for the longest window; empty if the model does not turn positions.
  RopeTable rope(const ModelSpec&) const;
  /// The rows of windows first, first + 1, … of a batch.
  BatchRows rows(size_t first) const;

 private:
  const std::vector<Window>& windows_;
  const std::vector<std::vector<uint8_t>>& masks_;
  int64_t batch_, longest_ = 1;
};

}  // namespace tern
