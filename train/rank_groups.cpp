#include "train/rank_groups.h"

#include <algorithm>

#include "comm/group.h"
#include "model/tensor_parts.h"

namespace tern {

int64_t RankGroups::staging_bytes() const {
  int64_t bytes = 0;
  for (const Comm* group :
       {replicas.get(), tables.get(), tensor.get(), keys.get(), context.get(), experts.get(), same_experts.get()})
    if (group) bytes += group->staging().peak_total();
  return bytes + (routed ? routed->beyond.peak_total() : 0);
}

RankGroups rank_groups(const ModelSpec& spec, const RankPlace& at, double capacity_factor, bool tensor_overlap,
                       Comm& world) {
  RankGroups groups;
  const auto group = [&](const std::vector<int>& ranks) {
    return std::make_unique<Comm>(group_of(world.transport(), ranks));
  };
  if (at.context.ranks > 1) {
    std::vector<int> same_rows;
    for (int r = 0; r < at.context.ranks; ++r)
      same_rows.push_back(at.rank_of(at.device, at.share() * at.context.ranks + r, at.tensor.place));
    groups.context = group(same_rows);
    groups.rows = std::make_unique<const ContextRanks>(ContextRanks{*groups.context, at.context.ring});
  }
  if (!at.in_mesh()) return groups;
  if (at.experts.ranks > 1) {
    std::vector<int> group_of_experts, with_same;
    for (int r = 0; r < at.replicas; ++r) {
      if (r / at.experts.ranks == at.replica / at.experts.ranks)
        group_of_experts.push_back(at.rank_of(at.device, r, at.tensor.place));
      if (r % at.experts.ranks == at.experts.place) with_same.push_back(at.rank_of(at.device, r, at.tensor.place));
    }
    groups.experts = group(group_of_experts), groups.same_experts = group(with_same);
    groups.routed = std::make_unique<RoutedRows>();
    groups.mixture = std::make_unique<const ExpertRanks>(ExpertRanks{*groups.experts, capacity_factor, *groups.routed});
  }
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
  if (tensor_overlap) groups.beside = std::make_unique<ExchangeBeside>();
  groups.matrices = std::make_unique<const TensorRanks>(TensorRanks{
      *groups.tensor, tokens_of(spec.vocab, at.tensor.place, at.tensor.ranks), groups.keys.get(), groups.beside.get()});
  return groups;
}

}  // namespace tern
