#pragma once
// A lower bound that keeps layers whole and gives each device its own memory. The relaxation (relaxation_impl.h) averages over
// assignments, so it may put 10.2 layers on a device and share memory between devices. This bound checks whether all layers have
// places. A device holds a whole number of layers. For each path over the device and each price of a byte, the path's time
// plus the price of the layers' bytes must be at most the step's time plus the price of the device's memory.
// docs/planner-proofs.md, "Whole layers in their order".

#include <cstdint>

#include "planner/instance/chain_impl.h"

namespace tern {

/// A lower bound of the makespan of any assignment that fits, ps, and at least `known_bound`. If it shows that no assignment takes
/// less than `upper_bound`, it stops and returns `upper_bound` (kNever: it goes on as far as it can).
/// Order: sums of doubles may round differently on another machine. A slack for this lowers the result, so it stays a lower bound.
int64_t packing_bound(const Chain&, int64_t known_bound, int64_t upper_bound);

}  // namespace tern
