#pragma once
// Where a rank of a run stands: the rank's layers, the rank's part of each matrix, and the rank's data share.

#include <vector>

#include "spec/model_spec.h"
#include "train/settings.h"
#include "train/tensor_place.h"
#include "update/shares.h"

namespace tern {

/// rank = (device · replicas + replica) · ranks of a tensor group + place in the tensor group. device: of the pipeline; without a plan of
/// several stages there is one device, with all units. Replicas: the ranks with the same layers and the same part of each matrix (their
/// experts may differ). A context group: consecutive replicas in one data share, each with other rows of the same micro-batches. An expert
/// group: consecutive replicas, each with some of the experts. Replicas with the same ExpertPlace::place have the same experts.
struct RankPlace {
  int rank = 0, device = 0, replica = 0, replicas = 1;
  TensorPlace tensor{};
  ContextPlace context{};
  ExpertPlace experts{};
  int share() const { return replica / context.ranks; }  // the number of its data share
  std::vector<int> home;                                 // by unit: the device that has it
  // By unit: whether this rank lacks it; empty: this rank has all units.
  std::vector<bool> elsewhere;

  bool has_first() const { return device == home.front(); }  // the embedding
  bool has_last() const { return device == home.back(); }    // the head
  bool in_stages() const { return !elsewhere.empty(); }
  /// Whether some other rank has other layers, other parts of matrices, or other experts.
  bool in_mesh() const { return in_stages() || tensor.ranks > 1 || experts.ranks > 1; }
  int rank_of(int of_device, int of_replica, int of_place) const {
    return (of_device * replicas + of_replica) * tensor.ranks + of_place;
  }
};
/// The place of rank `rank` of the settings' ranks. Errors: those of placement_of, if the settings' plan has several stages.
RankPlace rank_place(const ModelSpec&, const TrainSettings&, int rank);
/// The model with all layers, but with the matrices as this rank has them: whole, or in a tensor group the rank's part of each matrix.
ModelSpec part_of_rank(const ModelSpec&, const TensorPlace&);

/// Which elements of each parameter's weights, gradients and optimizer state this rank keeps, under the settings' ZeRO stages. Errors: those of make_shares and make_mesh_shares.
Shares shares_of(const ModelSpec&, const TrainSettings&, const RankPlace&);

}  // namespace tern
