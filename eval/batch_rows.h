#pragma once
// Windows laid end to end, some at a time: what every evaluation feeds a model. Stays in eval/.

#include <cstdint>
#include <vector>

#include "eval/windows.h"
#include "model/unit.h"

namespace tern {

struct BatchRows {
  std::vector<int32_t> tokens, targets;  // targets < 0: not scored
  std::vector<int64_t> starts;
};

/// Borrows windows and masks.
class WindowBatches {
 public:
  WindowBatches(const std::vector<Window>&, const std::vector<std::vector<uint8_t>>& masks, int64_t batch);
  /// Errors  usage: a token outside the vocabulary; a window longer than the model's learned positions.
  void check(const ModelSpec&) const;
  /// For the longest window; empty for learned positions.
  RopeTable rope(const ModelSpec&) const;
  BatchRows rows(size_t first) const;

 private:
  const std::vector<Window>& windows_;
  const std::vector<std::vector<uint8_t>>& masks_;
  int64_t batch_, longest_ = 1;
};

}  // namespace tern
