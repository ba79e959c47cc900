#pragma once
// Costs of a unit in a context group whose ranks swap rows for heads (model/context_ranks.h) or pass keys round a ring (model/ring_attention.h).

#include "spec/mesh.h"
#include "spec/unit_cost.h"

namespace tern {

/// unit_cost with the temporaries of swaps. CostQuery::tokens counts only this rank's rows.
UnitCost unit_cost_in_context(const Unit&, const CostQuery&);

/// Bytes of the tensors that this rank swaps inside a unit's passes. With n ranks 1/n of each tensor stays on the rank; it is counted too.
struct SwappedBytes {
  int64_t forward = 0, backward_input = 0, backward_weight = 0;
};
SwappedBytes swapped_bytes(const Unit&, const CostQuery&);

/// unit_cost with the temporaries of a ring. CostQuery::tokens counts only this rank's rows.
UnitCost unit_cost_in_ring(const Unit&, const CostQuery&);

/// Bytes that this rank sends to the next one, and receives from the one before, inside a unit's passes. With n ranks and B bytes of keys and
/// values of this rank's rows: forward (n − 1)·B; backward_input (n − 1)·B again, plus n times the bytes of their gradients (f32; f64 for f64).
struct RingBytes {
  int64_t forward = 0, backward_input = 0;
};
RingBytes ring_bytes(const Unit&, const CostQuery&, int64_t ranks);

/// unit_cost, or one of the two costs above if the mesh has a context axis.
UnitCost unit_cost_in_mesh(const Unit&, const CostQuery&, const Mesh&);

}  // namespace tern
