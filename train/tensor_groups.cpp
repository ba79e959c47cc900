#include "train/tensor_groups.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "comm/group.h"
#include "model/tensor_parts.h"

namespace tern {

namespace {

// What a rank of parts can do alone.
bool updates_each_element(UpdateRule rule) {
  const UpdateRuleRow& row = row_of(rule);
  return std::ranges::all_of(row.slots, [](const StateSlot& slot) { return !slot.type; }) &&
         num_sums(update_config(rule)) == 0 && row.grain({ParameterKind::matrix, 8, 8}) == UpdateGrain::interval;
}

}  // namespace

void check_tensor_ranks(const ModelSpec& spec, const TrainSettings& s) {
  if (s.tensor == 1) return;
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorKind::usage, "--tensor-parallel {}: {}", s.tensor, why);
  };
  if (const std::string fault = why_not_in_parts(spec, s.tensor); !fault.empty())
    refuse(fault + ", which is not shared out; choose another number, or 1");
  if (s.robust) refuse("--aggregator takes whole gradients of each rank; leave one of the two out");
  if (const int zero = deepest_zero(s); zero > 0 && num_replicas(s) > 1)
    refuse(fmt::format("--zero {} beside it is not there yet; say --zero 0", zero));
  if (!updates_each_element(s.optimizer.rule)) {
    std::string others;
    for (const UpdateRule rule : kUpdateRules)
      if (updates_each_element(rule)) others += fmt::format("{}{}", others.empty() ? "" : ", ", name_of(rule));
    refuse(
        fmt::format("--optimizer {} needs whole matrices or sums over the model, which no rank has; choose one of {}",
                    name_of(s.optimizer.rule), others));
  }
  if (s.micro_batch * s.seq % s.tensor != 0)
    refuse(fmt::format("a micro-batch of {} tokens cannot be shared out in equal parts; choose another --seq",
                       s.micro_batch * s.seq));
}

StageGroups tensor_groups(const ModelSpec& spec, const RankPlace& place, Comm& world) {
  StageGroups groups;
  const int ranks = place.tensor.ranks, first = place.rank - place.tensor.place;
  std::vector<int> ours, alike, same;
  for (int r = 0; r < ranks; ++r) ours.push_back(first + r);
  for (int r = place.tensor.place; r < world.size(); r += ranks) alike.push_back(r);
  for (const int r : ranks_of_same_keys(spec, place.tensor.place, ranks)) same.push_back(first + r);
  groups.tensor = std::make_unique<Comm>(group_of(world.transport(), ours));
  groups.replicas = std::make_unique<Comm>(group_of(world.transport(), alike));
  if (same.size() > 1) groups.keys = std::make_unique<Comm>(group_of(world.transport(), same));
  groups.matrices = std::make_unique<const TensorRanks>(
      TensorRanks{*groups.tensor, tokens_of(spec.vocab, place.tensor.place, ranks), groups.keys.get()});
  return groups;
}

TensorNorm tensor_norm(const ModelSpec& part, const RankPlace& place, const StageGroups& groups) {
  TensorNorm norm;
  for (int r = 0; r < place.tensor.ranks; ++r) norm.group.push_back(place.rank - place.tensor.place + r);
  for (const ParameterInfo& info : trained_parameters(part)) {
    const AlikeRows rows = alike_rows(part, info, groups.keys != nullptr);
    const int holders = rows.by_all ? place.tensor.ranks : groups.keys ? groups.keys->size() : 1;
    norm.alike.push_back({rows.from * (info.shape.count() / info.shape[0]), holders});
  }
  return norm;
}

}  // namespace tern
