#pragma once
// The REDUCE of a step whose gradients are aggregated (update/robust.h) instead of summed: one vector of all gradients, before NORM.

#include <span>
#include <vector>

#include "comm/comm.h"
#include "tensor/arena.h"
#include "update/robust.h"

namespace tern {

/// What a rank keeps from step to step. Zero at first. Bytes of all ranks: robust_state_bytes.
struct RobustState {
  std::vector<Tensor> momentum{};  // of each gradient, in its type; none without local momentum
  Tensor centre{};                 // of centered clipping: this rank's part of the last aggregate; else empty
};
RobustState make_robust_state(const RobustConfig&, std::span<const Tensor> gradients, int rank, int ranks, Arena&);

/// What one rank of a run aggregates with.
struct RobustStep {
  const RobustConfig& config;
  RobustState& state;
  Arena
      staging{};  // memory for the vectors' parts, kept from the first step on; all ranks together: robust_staging_bytes
  Tensor received{}, point{};
};

/// On entry each of n ranks has a summand of the step's mean gradient. On return every rank has n times the aggregate of the summands.
/// So each rule stands in for the sum that REDUCE gives, and the mean rule gives this sum. All ranks call the function. With local momentum
/// a rank sends u = βu + (1-β)g in the place of g (at step 1 u = g). A rank whose gradient is not finite sends that gradient and keeps u.
/// Links   each rank: the vector as an all-reduce, and robust_values doubles to each other rank.
/// Order   as aggregate_part; the parts are even_parts.
void aggregate_gradients(RobustStep&, std::span<const Tensor> gradients, int64_t step, Comm&);

}  // namespace tern
