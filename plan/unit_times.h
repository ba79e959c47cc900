#pragma once
// The times of one unit.

#include <cstdint>

#include "hardware/machine.h"
#include "plan/train_job.h"
#include "spec/mesh.h"
#include "spec/unit_cost.h"

namespace tern {

/// Picoseconds of a unit's passes over one micro-batch, on one rank.
struct UnitTimes {
  int64_t forward = 0, backward = 0, weight = 0;
  // Parts of forward: products of matrices; attention between them; what else PartRecompute::operations keeps, that is the
  // reduce-scatter of a tensor group and the largest magnitudes of operands that are narrowed.
  int64_t products = 0, scores = 0, reduced = 0;
  int64_t narrowed_weights = 0;  // not among the passes: the weights brought to 8 bits, once
};
/// The time of the unit's kernels and of its messages along the tensor, context and expert axes, and at least the time
/// that issuing the kernels takes. `cost` is unit_cost(unit, query); the query's tokens are those of one rank of the
/// context axis.
UnitTimes unit_times(const TrainJob&, const Machine&, const Mesh&, const CostQuery& query, const Unit&,
                     const UnitCost& cost);

}  // namespace tern
