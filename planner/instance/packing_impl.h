#pragma once
// A bound that knows whole layers and each device's own memory. The relaxation (relaxation_impl.h) averages over
// assignments, so it sees 10.2 layers on a device and memory that devices share; this one asks whether all layers have
// places: a device holds a whole number of them, whose times along a path, with its own bytes at a price, are at most
// the step's time, for every path and every price. docs/planner-proofs.md, "Whole layers".

#include <cstdint>

#include "planner/instance/chain_impl.h"

namespace tern {

/// A lower bound of the makespan of any assignment that fits, ps, and at least `known_bound`. It stops at
/// `upper_bound`, which it returns if nothing is below (kNever: it goes on as far as it can). Order: the same bits
/// everywhere but for sums of doubles, which only ever lower it.
int64_t packing_bound(const Chain&, int64_t known_bound, int64_t upper_bound);

}  // namespace tern
