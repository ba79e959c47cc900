#pragma once
// The attack label-flip (--attack): ranks that learn from flipped targets.

#include <cstdint>
#include <vector>

#include "exec/micro_batch.h"
#include "train/settings.h"

namespace tern {

/// Whether this rank is an attacker under --attack label-flip. The attackers are the last ranks.
bool flips_labels(const TrainSettings&, int rank);
/// Each target y that has a loss becomes vocabulary − 1 − y.
void flip_labels(std::vector<MicroBatch>&, int64_t vocabulary);

}  // namespace tern
