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

/// This rank's end of each group; null if this rank is in no such group. In a run that has no stages, no tensor groups and no expert
/// groups, `replicas` is null too: the replicas are the whole world.
struct RankGroups {
  std::unique_ptr<Comm> replicas;  // the ranks with the same layers and the same part of each matrix
  std::unique_ptr<Comm>
      tables;  // with stages: the ranks with the embedding or the head that have this rank's replica number and tensor place
  std::unique_ptr<Comm> tensor;  // the rank's tensor group
  // The ranks of `tensor` with the same key/value heads as this rank, if there are others.
  std::unique_ptr<Comm> keys;
  std::unique_ptr<ExchangeBeside> beside;       // of a tensor group whose exchanges pass beside products
  std::unique_ptr<const TensorRanks> matrices;  // made of `tensor`, `keys` and `beside`
  std::unique_ptr<Comm> context;                // the rank's context group
  std::unique_ptr<const ContextRanks> rows;     // made of `context`
  std::unique_ptr<Comm> experts;                // the rank's expert group
  std::unique_ptr<Comm> same_experts;           // the `replicas` with the same experts; null without expert groups
  std::unique_ptr<RoutedRows> routed;           // what the passes of `mixture` count
  std::unique_ptr<const ExpertRanks> mixture;   // made of `experts` and `routed`
  int64_t staging_bytes() const;  // the sum of the groups' peaks of Comm::staging, and that of RoutedRows::beyond
};

/// Makes the groups over the world's transport, which must outlive the groups; sends nothing.
/// capacity_factor, tensor_overlap: those of TrainSettings, for the expert group and the tensor group.
RankGroups rank_groups(const ModelSpec&, const RankPlace&, double capacity_factor, bool tensor_overlap, Comm& world);

}  // namespace tern
