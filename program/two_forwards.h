#pragma once
// The passes of a step without backward passes (update/perturbed_weights.h), as a Program.

#include <span>

#include "program/program.h"
#include "spec/unit_cost.h"

namespace tern {

/// Every micro-batch twice, unit by unit: a unit's FORWARDs of all micro-batches, then the same again as micro-batches n to 2n - 1, then
/// the next unit's. So a step needs each unit's weights for one stretch of time. What lies between two units is there for all micro-batches.
Program two_forwards(const ModelSpec&, std::span<const CostQuery> micro_batches);

}  // namespace tern
