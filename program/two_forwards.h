#pragma once
// The passes of a step without backward passes (update/perturbed_weights.h), as a Program.

#include <span>

#include "program/program.h"
#include "spec/unit_cost.h"

namespace tern {

/// A Program that runs every micro-batch twice. For each unit in turn it runs the FORWARDs of all n micro-batches, then the same
/// FORWARDs again as micro-batches n to 2n - 1. So a step needs the weights of each unit for one stretch of time only,
/// and keeps the outputs of all micro-batches.
Program two_forwards(const ModelSpec&, std::span<const CostQuery> micro_batches);

}  // namespace tern
