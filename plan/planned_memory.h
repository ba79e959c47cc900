#pragma once
// A plan's bytes by what they are for.

#include <array>
#include <cstdint>

#include "spec/tier.h"

namespace tern {

/// What a training rank's bytes of one tier are for.
struct PlannedMemory {
  int64_t weights = 0, gradients = 0, optimizer = 0;  // all the time
  int64_t activations =
      0;  // of micro-batches under way, at the moment of the peak; ZeRO 2, 3: and the head's gradients
  int64_t buffers =
      0;  // at that moment: what the layer at work takes beside them, gathered weights, transfers under way
  int64_t total() const { return weights + gradients + optimizer + activations + buffers; }
};
using PlannedMemoryByTier = std::array<PlannedMemory, kTiers>;

}  // namespace tern
