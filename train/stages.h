#pragma once
// Where a rank of a run stands: which layers it has, which replica's micro-batches it sees, and whom it works with.

#include <memory>
#include <vector>

#include "comm/comm.h"
#include "model/weights.h"
#include "spec/model_spec.h"
#include "train/settings.h"
#include "update/shares.h"
#include "update/step.h"

namespace tern {

/// rank = device · replicas + replica. Without a plan of several stages the only device has all units.
struct RankPlace {
  int rank = 0, device = 0, replica = 0, replicas = 1;
  std::vector<int> home;        // of each unit: the device that has it
  std::vector<bool> elsewhere;  // units that this rank does not have; empty: it has all

  bool has_first() const { return device == home.front(); }
  bool has_last() const { return device == home.back(); }
};
RankPlace rank_place(const ModelSpec&, const TrainSettings&, int rank);

/// What this rank keeps of the optimizer's state.
Shares shares_of(const ModelSpec&, const TrainSettings&, const RankPlace&);

/// The ranks of its stage; those that hold the tied table of its replica, where it is one of them. Both empty without stages.
struct StageGroups {
  std::unique_ptr<Comm> replicas, tables;
  int64_t staging_bytes() const;  // at their most
};
StageGroups stage_groups(const RankPlace&, Comm& world);

/// Each rank's weights, and the numbers that are not trained, come to `whole`: the first rank's copy of the model, empty elsewhere.
/// By all ranks together, with the pass's weights as they are saved.
void gather_model(const ModelSpec&, DType, const UpdatePass&, Comm& world, ModelWeights& whole);

}  // namespace tern
