#pragma once
// The groups of ranks that a rank of a run exchanges messages with.

#include <cstdint>
#include <memory>

#include "comm/comm.h"
#include "model/context_ranks.h"
#include "model/expert_ranks.h"
#include "model/tensor_ranks.h"
#include "spec/model_spec.h"
#include "train/rank_place.h"

namespace tern {

/// This rank's end of each group; null where the run has no such group, or this rank is not in one. Without stages and tensor groups
/// `replicas` is null too: the replicas are then the whole world.
struct RankGroups {
  std::unique_ptr<Comm> replicas;  // the ranks with the same layers and the same part of each matrix
  std::unique_ptr<Comm>
      tables;  // the ranks that hold the tied table and have this rank's replica number and tensor place
  std::unique_ptr<Comm> tensor;  // its tensor group
  // Those of its tensor group with the same key/value heads, if there are others.
  std::unique_ptr<Comm> keys;
  std::unique_ptr<const TensorRanks> matrices;  // made of `tensor` and `keys`
  std::unique_ptr<Comm> context;                // its context group
  std::unique_ptr<const ContextRanks> rows;     // made of `context`
  std::unique_ptr<Comm> experts;                // its expert group
  std::unique_ptr<Comm> same_experts;          // of `replicas`, those with the same experts, if there are expert groups
  std::unique_ptr<RoutedRows> routed;          // what the passes of `mixture` count
  std::unique_ptr<const ExpertRanks> mixture;  // made of `experts` and `routed`
  int64_t staging_bytes() const;  // the sum of the groups' peaks of Comm::staging, and that of RoutedRows::beyond
};

/// capacity_factor: TrainSettings::capacity_factor, for the expert group.
/// Makes the groups over the world's transport, which must outlive them. It sends nothing.
RankGroups rank_groups(const ModelSpec&, const RankPlace&, double capacity_factor, Comm& world);

}  // namespace tern
