#include "train/stages.h"

#include <algorithm>
#include <cstring>

#include "comm/group.h"
#include "model/tensor_parts.h"
#include "model/visit_weights.h"
#include "program/placement.h"
#include "train/tensor_state.h"

namespace tern {

RankPlace rank_place(const ModelSpec& spec, const TrainSettings& s, int rank) {
  RankPlace place{
      .rank = rank, .replicas = num_sharers(s), .home = std::vector<int>(spec.units.size()), .elsewhere = {}};
  place.tensor = {rank % s.tensor, s.tensor};
  const int group = rank / s.tensor;
  place.device = group / place.replicas, place.replica = group % place.replicas;
  place.context = {place.replica % s.context_ranks, s.context_ranks};
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
  return make_mesh_shares(part_of_rank(spec, place.tensor), s.optimizer.rule, zero, place.home,
                          {place.device, place.replica, place.replicas, place.tensor.place, place.tensor.ranks});
}

int64_t StageGroups::staging_bytes() const {
  int64_t bytes = 0;
  for (const Comm* group : {replicas.get(), tables.get(), tensor.get(), keys.get(), context.get()})
    if (group) bytes += group->staging().peak_total();
  return bytes;
}

StageGroups stage_groups(const ModelSpec& spec, const RankPlace& at, Comm& world) {
  StageGroups groups;
  const auto group = [&](const std::vector<int>& ranks) {
    return std::make_unique<Comm>(group_of(world.transport(), ranks));
  };
  if (at.context.ranks > 1) {
    std::vector<int> same_rows;
    for (int r = 0; r < at.context.ranks; ++r)
      same_rows.push_back(at.rank_of(at.device, at.share() * at.context.ranks + r, at.tensor.place));
    groups.context = group(same_rows);
    groups.rows = std::make_unique<const ContextRanks>(ContextRanks{*groups.context});
  }
  if (!at.in_mesh()) return groups;
  std::vector<int> same_part, same_table{at.rank_of(at.home.front(), at.replica, at.tensor.place)};
  for (int r = 0; r < at.replicas; ++r) same_part.push_back(at.rank_of(at.device, r, at.tensor.place));
  groups.replicas = group(same_part);
  if (at.in_stages() && (at.has_first() || at.has_last())) {
    if (at.home.back() != at.home.front())
      same_table.push_back(at.rank_of(at.home.back(), at.replica, at.tensor.place));
    std::ranges::sort(same_table);
    groups.tables = group(same_table);
  }
  if (at.tensor.ranks == 1) return groups;
  std::vector<int> ours, same_keys;
  for (int t = 0; t < at.tensor.ranks; ++t) ours.push_back(at.rank_of(at.device, at.replica, t));
  for (const int t : ranks_of_same_keys(spec, at.tensor.place, at.tensor.ranks)) same_keys.push_back(ours[t]);
  groups.tensor = group(ours);
  if (same_keys.size() > 1) groups.keys = group(same_keys);
  groups.matrices = std::make_unique<const TensorRanks>(
      TensorRanks{*groups.tensor, tokens_of(spec.vocab, at.tensor.place, at.tensor.ranks), groups.keys.get()});
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
                       .owners = state.shares.keepers(p)});
  weights = in_parts(std::move(weights), spec, place.tensor);
  for (size_t p = 0; p < weights.size(); ++p) gather_to_first(world, weights[p], world.rank() == 0 ? *to[p] : Tensor());
}

}  // namespace tern
