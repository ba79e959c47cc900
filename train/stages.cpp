#include "train/stages.h"

#include <algorithm>
#include <cstring>

#include "comm/group.h"
#include "program/placement.h"
#include "train/tensor_groups.h"
#include "train/tensor_state.h"

namespace tern {

RankPlace rank_place(const ModelSpec& spec, const TrainSettings& s, int rank) {
  RankPlace place{
      .rank = rank, .replicas = num_replicas(s), .home = std::vector<int>(spec.units.size()), .elsewhere = {}};
  if (s.tensor > 1) {
    place.tensor = {rank % s.tensor, s.tensor}, place.replica = rank / s.tensor;
    return place;
  }
  place.device = rank / place.replicas, place.replica = rank % place.replicas;
  if (num_stage_devices(s) == 1) return place;
  const Placement placed = placement_of(spec, *s.plan);
  for (const PlacedLayer& l : placed.layers)
    for (int u = l.layer.first; u < l.layer.first + l.layer.count; ++u)
      place.home[static_cast<size_t>(u)] = device_of(placed.shape, l.stage);
  for (const int device : place.home) place.elsewhere.push_back(device != place.device);
  return place;
}

Shares shares_of(const ModelSpec& spec, const TrainSettings& s, const RankPlace& place) {
  if (place.tensor.ranks > 1) return {};
  if (place.elsewhere.empty()) return make_shares(spec, s.optimizer.rule, zero_of_units(spec, s), place.rank, s.ranks);
  return make_stage_shares(spec, place.home, place.replicas, place.rank, s.ranks);
}

int64_t StageGroups::staging_bytes() const {
  int64_t bytes = 0;
  for (const Comm* group : {replicas.get(), tables.get(), tensor.get(), keys.get()})
    if (group) bytes += group->staging().peak_total();
  return bytes;
}

StageGroups stage_groups(const ModelSpec& spec, const RankPlace& place, Comm& world) {
  if (place.tensor.ranks > 1) return tensor_groups(spec, place, world);
  StageGroups groups;
  if (place.elsewhere.empty()) return groups;
  std::vector<int> same_stage, same_table{place.home.front() * place.replicas + place.replica};
  for (int r = 0; r < place.replicas; ++r) same_stage.push_back(place.device * place.replicas + r);
  if (place.home.back() != place.home.front()) same_table.push_back(place.home.back() * place.replicas + place.replica);
  std::ranges::sort(same_table);
  groups.replicas = std::make_unique<Comm>(group_of(world.transport(), same_stage));
  if (place.has_first() || place.has_last())
    groups.tables = std::make_unique<Comm>(group_of(world.transport(), same_table));
  return groups;
}

void gather_model(const ModelSpec& spec, const RankPlace& place, DType dtype, const UpdatePass& pass, Comm& world,
                  ModelWeights& whole) {
  const OptimizerState& state = pass.state;
  std::vector<Tensor*> to;
  if (world.rank() == 0) {
    to = trained_tensors(spec, whole);
    size_t next = 0;
    for_each_fixed(spec, whole, [&](const ParameterInfo&, Tensor& t) {
      const Tensor& own = state.fixed[next++];
      std::memcpy(t.data(), own.data(), static_cast<size_t>(own.bytes()));
    });
  }
  std::vector<StateTensor> weights;
  for (size_t p = 0; p < state.infos.size(); ++p)
    weights.push_back({.name = "model." + state.infos[p].name,
                       .dtype = dtype,
                       .shape = state.infos[p].shape,
                       .own = own_part(state.shares, p, state.forms[p].elements(), pass.weights[p]),
                       .owners = state.shares.any() ? state.shares.owners[p] : std::vector<RankInterval>{}});
  weights = in_parts(std::move(weights), spec, place.tensor);
  for (size_t p = 0; p < weights.size(); ++p) gather_to_first(world, weights[p], world.rank() == 0 ? *to[p] : Tensor());
}

}  // namespace tern
