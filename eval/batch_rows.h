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
  std::vector<int64_t> starts;           // the first row of each sequence, and at the end T
  // Empty: each window is a sequence. Else Rows::follows, and of each window its sequence; a prompt that windows share is a sequence of its own.
  std::vector<int> follows = {};
  std::vector<size_t> of_window = {};
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
  /// The same, but neighbours with one prompt (choices of a question) have its rows once. A prompt is the tokens before the first scored one; the row
  /// that predicts that one is each window's own. Windows with masks share nothing.
  BatchRows rows_with_prompts(size_t first) const;

 private:
  int64_t shared_rows(size_t first, size_t& end) const;
  void add_rows(const Window&, int64_t from, const std::vector<uint8_t>* mask, BatchRows&) const;
  const std::vector<Window>& windows_;
  const std::vector<std::vector<uint8_t>>& masks_;
  int64_t batch_, longest_ = 1;
};

}  // namespace tern
