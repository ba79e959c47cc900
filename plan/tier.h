#pragma once
// Where bytes lie.

#include <array>
#include <cstdint>

namespace tern {

enum class Tier : uint8_t { device, host, disk };
inline constexpr int kTiers = 3;
using TierBytes = std::array<int64_t, kTiers>;

/// What a training rank's bytes of one tier are for.
struct MemoryClasses {
  int64_t weights = 0, gradients = 0, optimizer = 0;  // all the time
  int64_t activations = 0;                            // of micro-batches under way, when most is used
  int64_t buffers = 0;  // then: what the layer at work takes beside them; gathered weights; transfers under way
  int64_t total() const { return weights + gradients + optimizer + activations + buffers; }
};
using MemoryByTier = std::array<MemoryClasses, kTiers>;

}  // namespace tern
