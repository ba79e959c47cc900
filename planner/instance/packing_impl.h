#pragma once
// A bound that knows whole layers and each device's own memory. The relaxation (relaxation_impl.h) averages over
// assignments, so it sees 10.2 layers on a device and memory that devices share; this one asks whether all layers have
// places. A device holds a whole number of layers. For each path over the device and each price of a byte, the path's time
// plus the price of the layers' bytes must be at most the step's time plus the price of the device's memory.
// docs/planner-proofs.md, "Whole layers in their order".

#include <cstdint>

#include "planner/instance/chain_impl.h"

namespace tern {

/// A lower bound of the makespan of any assignment that fits, ps, and at least `known_bound`. It stops at
/// `upper_bound`, which it returns if it shows that no assignment takes less (kNever: it goes on as far as it can).
/// Order: sums of doubles may round differently elsewhere; the slack for that only lowers the result, so it stays a bound.
int64_t packing_bound(const Chain&, int64_t known_bound, int64_t upper_bound);

}  // namespace tern
