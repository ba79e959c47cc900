#pragma once
// What the units of a model cost in each micro-batch of a step.

#include <vector>

#include "program/placement.h"
#include "spec/context_cost.h"
#include "spec/expert_cost.h"
#include "spec/unit_cost.h"

namespace tern {

/// The costs of every unit, stored once for each run of consecutive micro-batches of equal size.
struct MicroBatchCosts {
  std::vector<size_t> size_of;                   // for each micro-batch, the place of its size in `costs`
  std::vector<std::vector<UnitCost>> costs;      // by size and unit
  std::vector<std::vector<SwappedBytes>> swaps;  // likewise; zeros without a context group that swaps rows for heads
  std::vector<std::vector<RingBytes>> rings;     // likewise; zeros without a context group that passes keys in a ring
  std::vector<std::vector<RoutedBytes>> routed;  // likewise; zeros without an expert group
  MicroBatchCosts(const ModelSpec&, const Placement&);
  const UnitCost& of(int unit, int micro) const { return costs[size_of[micro]][unit]; }
  const RoutedBytes& routed_of(int unit, int micro) const { return routed[size_of[micro]][unit]; }
  const SwappedBytes& swaps_of(int unit, int micro) const { return swaps[size_of[micro]][unit]; }
  const RingBytes& rings_of(int unit, int micro) const { return rings[size_of[micro]][unit]; }
};

}  // namespace tern
