#pragma once
// A plan's bytes by what they are for.

#include <array>
#include <cstdint>

#include "spec/tier.h"

namespace tern {

/// A training rank's bytes on one tier, by what they are for.
struct PlannedMemory {
  int64_t weights = 0, gradients = 0, optimizer = 0;  // at all times
  int64_t activations =
      0;  // of micro-batches under way, at the moment of the peak; with ZeRO 2 and 3 also the head's gradients
  int64_t buffers =
      0;  // at that moment, beside activations: workspace of the running layer, gathered weights, transfers under way
  int64_t total() const { return weights + gradients + optimizer + activations + buffers; }
};
using PlannedMemoryByTier = std::array<PlannedMemory, kTiers>;

}  // namespace tern
