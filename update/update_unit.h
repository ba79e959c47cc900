#pragma once
// UPDATE(unit): the step of the update rule on the parameters of a unit.

#include <cstdint>
#include <span>
#include <vector>

#include "comm/comm.h"
#include "spec/model_spec.h"
#include "tensor/arena.h"
#include "update/pass.h"
#include "update/rule.h"

namespace tern {

/// UPDATE(unit): makes the rule's step on every parameter of the unit, which also rounds the masters
/// into bf16 weights. Afterwards the gradients of the unit are zero. Units may come in any order: same bits.
/// Temporaries are the arena's (MemoryClass::workspace), at most as many bytes as update_workspace in spec/update_rule.h says.
/// Of a shared-out parameter it changes this rank's part. A rule's sums over a parameter are exchanged among the replicas.
void update_unit(const UpdatePass&, const UpdateNorm&, int unit, Arena&, Comm* replicas = nullptr);
/// The same for some parameters, by their places in state.infos.
void update_parameters(const UpdatePass&, const UpdateNorm&, std::span<const size_t> parameters, Arena&,
                       Comm* replicas = nullptr);

/// Bytes that each of `replicas` replicas contributes to the exchange in UPDATE of these parameters (block_value_bytes).
std::vector<int64_t> update_value_bytes(const UpdatePass&, std::span<const size_t> parameters, int replicas);

/// The most bytes that UPDATE leaves in the scratch of all compute threads together (kernels/cpu/thread_scratch.h).
int64_t update_thread_bytes(const ModelSpec&, const UpdateConfig&, DType weights);

}  // namespace tern
