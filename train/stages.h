#pragma once
// Where a rank of a run stands: which layers it has, which replica's micro-batches it sees, and whom it works with.

#include <memory>
#include <vector>

#include "comm/comm.h"
#include "model/context_ranks.h"
#include "model/tensor_ranks.h"
#include "model/weights.h"
#include "spec/model_spec.h"
#include "train/settings.h"
#include "train/tensor_place.h"
#include "update/pass.h"
#include "update/shares.h"

namespace tern {

/// rank = (device · replicas + replica) · ranks of a tensor group + place in its tensor group. Without a plan of several stages the only
/// device has all units. Replicas have the same part of the model; neighbours among them are a context group, which sees the same
/// micro-batches, each rank its rows of them.
struct RankPlace {
  int rank = 0, device = 0, replica = 0, replicas = 1;
  TensorPlace tensor{};
  ContextPlace context{};
  int share() const { return replica / context.ranks; }  // which share of the step's micro-batches it sees
  std::vector<int> home;                                 // of each unit: the device that has it
  std::vector<bool> elsewhere;                           // units that this rank does not have; empty: it has all

  bool has_first() const { return device == home.front(); }
  bool has_last() const { return device == home.back(); }
  bool in_stages() const { return !elsewhere.empty(); }
  /// Whether it has other layers, or other parts of matrices, than some rank.
  bool in_mesh() const { return in_stages() || tensor.ranks > 1; }
  int rank_of(int of_device, int of_replica, int of_place) const {
    return (of_device * replicas + of_replica) * tensor.ranks + of_place;
  }
};
RankPlace rank_place(const ModelSpec&, const TrainSettings&, int rank);
/// The model as a rank has it, all layers: the whole, or its part of each matrix.
ModelSpec part_of_rank(const ModelSpec&, const TensorPlace&);

/// What this rank keeps of the optimizer's state.
Shares shares_of(const ModelSpec&, const TrainSettings&, const RankPlace&);

/// The groups that a rank works with. Without stages and tensor groups all are empty.
struct StageGroups {
  std::unique_ptr<Comm> replicas;  // the ranks of this rank's stage, or those with the same part of each matrix
  std::unique_ptr<Comm>
      tables;  // the ranks of this replica that hold the tied table; null where this rank is none of them
  std::unique_ptr<Comm> tensor;  // its tensor group
  std::unique_ptr<Comm>
      keys;  // the ranks of its tensor group with the same key/value heads; null where this rank is the only
             // one
  std::unique_ptr<const TensorRanks> matrices;  // made of `tensor` and `keys`
  std::unique_ptr<Comm> context;                // its context group
  std::unique_ptr<const ContextRanks> rows;     // made of `context`
  int64_t staging_bytes() const;                // the groups' peaks, summed
};
StageGroups stage_groups(const ModelSpec&, const RankPlace&, Comm& world);
/// Brings each rank's weights, and the numbers that are not trained, to `whole`: the first rank's copy of the model, empty on
/// the others. All ranks call it, with the pass's weights as they are saved (WeightPoint::saved).
void gather_model(const ModelSpec&, const RankPlace&, DType, const UpdatePass&, Comm& world, ModelWeights& whole);

}  // namespace tern
