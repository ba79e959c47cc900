#include "train/rank_place.h"

#include "model/tensor_parts.h"
#include "program/placement.h"
#include "train/settings_ranks.h"

namespace tern {

RankPlace rank_place(const ModelSpec& spec, const TrainSettings& s, int rank) {
  RankPlace place{
      .rank = rank, .replicas = num_sharers(s), .home = std::vector<int>(spec.units.size()), .elsewhere = {}};
  place.tensor = {rank % s.tensor, s.tensor};
  const int group = rank / s.tensor;
  place.device = group / place.replicas, place.replica = group % place.replicas;
  place.context = {place.replica % s.context_ranks, s.context_ranks, s.context_ring};
  place.experts = {place.replica % s.expert_ranks, s.expert_ranks};
  if (num_stage_devices(s) == 1) return place;
  const Placement placed = placement_of(spec, *s.plan);
  for (const PlacedLayer& l : placed.layers)
    for (int u = l.layer.first; u < l.layer.first + l.layer.count; ++u)
      place.home[static_cast<size_t>(u)] = device_of(placed.shape, l.stage);
  for (const int device : place.home) place.elsewhere.push_back(device != place.device);
  return place;
}

ModelSpec part_of_rank(const ModelSpec& spec, const TensorPlace& at) {
  return at.ranks > 1 ? tensor_part(spec, at.ranks) : spec;
}

Shares shares_of(const ModelSpec& spec, const TrainSettings& s, const RankPlace& place) {
  const std::vector<int> zero = zero_of_units(spec, s);
  if (!place.in_mesh()) return make_shares(spec, s.optimizer.rule, zero, place.rank, s.ranks);
  return make_mesh_shares(
      part_of_rank(spec, place.tensor), s.optimizer.rule, zero, place.home,
      {place.device, place.replica, place.replicas, place.tensor.place, place.tensor.ranks, place.experts.ranks});
}

}  // namespace tern
