#pragma once
// A unit in a context group that swaps rows for heads (model/context_ranks.h).

#include "spec/unit_cost.h"

namespace tern {

/// unit_cost with the temporaries of swaps. The query's tokens are this rank's rows.
UnitCost unit_cost_in_context(const Unit&, const CostQuery&);

/// Bytes of the tensors that this rank swaps inside a unit's passes. With n ranks 1/n of each tensor stays on the rank; it is counted too.
struct SwappedBytes {
  int64_t forward = 0, backward_input = 0, backward_weight = 0;
};
SwappedBytes swapped_bytes(const Unit&, const CostQuery&);

}  // namespace tern
