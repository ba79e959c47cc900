#pragma once
// The REDUCE of a step that aggregates gradients (update/robust.h) instead of summing them. It treats all gradients as one vector.

#include <span>
#include <vector>

#include "comm/comm.h"
#include "tensor/arena.h"
#include "update/robust.h"

namespace tern {

/// What a rank keeps from step to step. It begins as zeros. Bytes of all ranks together: robust_state_bytes.
struct RobustState {
  std::vector<Tensor> momentum{};  // of each gradient, in the gradient's type; none without local momentum
  Tensor centre{};                 // of centered clipping: this rank's part of the last aggregate; else empty
};
RobustState make_robust_state(const RobustConfig&, std::span<const Tensor> gradients, int rank, int ranks, Arena&);

/// What a rank needs to aggregate.
struct RobustStep {
  const RobustConfig& config;
  RobustState& state;
  Arena
      staging{};  // memory for parts of vectors, kept from the first step on; bytes of all ranks: robust_staging_bytes
  Tensor received{}, point{};
};

/// On entry each of n ranks has one summand of the step's mean gradient. On return every rank has n times the aggregate of the summands,
/// so that any rule can replace the sum; the rule `mean` gives just that sum. All ranks call it. With local momentum
/// a rank sends u = βu + (1-β)g instead of g (at step 1 u = g). A rank whose gradient is not finite sends that gradient and keeps u.
/// Links   each rank sends the vector, as in an all-reduce, and robust_values doubles to each other rank.
/// Order   as aggregate_part; the parts are even_parts.
void aggregate_gradients(RobustStep&, std::span<const Tensor> gradients, int64_t step, Comm&);

}  // namespace tern
