#pragma once
// For tests: a rank that has its part of the matrices of a small model, ready to run a Program on.

#include <algorithm>
#include <optional>
#include <vector>

#include "comm/group.h"
#include "exec/executor_testing.h"
#include "model/tensor_parts.h"
#include "model/tensor_ranks.h"

namespace tern {

/// A rank of a mesh: rank = replica · tensor + place in its tensor group.
struct TensorPart {
  Bench whole;  // micro-batches, sizes, and the weights that a step begins with
  ModelSpec spec;
  Arena arena;
  ModelWeights weights, gradients;
  OptimizerState state;
  std::optional<UpdatePass> update;
  std::optional<Comm> tensor, replicas, keys;
  std::optional<ExchangeBeside> exchange;
  std::optional<TensorRanks> group;

  /// `beside`: the group's exchanges pass beside products.
  TensorPart(const Case& c, const UpdateConfig& config, Comm& world, int ranks, bool beside = false)
      : whole(c, config), spec(tensor_part(whole.spec, ranks)) {
    const int place = world.rank() % ranks, first = world.rank() - place;
    std::vector<int> ours, alike, same;
    for (int r = 0; r < world.size(); ++r) {
      if (r >= first && r < first + ranks) ours.push_back(r);
      if (r % ranks == place) alike.push_back(r);
    }
    for (const int r : ranks_of_same_keys(whole.spec, place, ranks)) same.push_back(first + r);
    tensor.emplace(group_of(world.transport(), ours)), replicas.emplace(group_of(world.transport(), alike));
    if (same.size() > 1) keys.emplace(group_of(world.transport(), same));
    group.emplace(TensorRanks{*tensor, tokens_of(whole.spec.vocab, place, ranks), keys ? &*keys : nullptr,
                              beside ? &exchange.emplace() : nullptr});

    weights = allocate_weights(spec, c.dtype, MemoryClass::weights, arena);
    const std::vector<ParameterInfo> infos = parameters(whole.spec);
    const std::vector<Tensor*> from = tensors(whole.spec, whole.weights), to = tensors(spec, weights);
    for (size_t p = 0; p < infos.size(); ++p)
      take_part(tensor_holding(whole.spec, infos[p], place, ranks), *from[p], *to[p]);
    gradients = allocate_gradients(spec, c.dtype, arena);
    state = make_optimizer_state(spec, weights, whole.config, arena);
    update.emplace(make_update_pass(spec, state, whole.config, weights, gradients));
    update->tensor.emplace();
    for (const ParameterInfo& info : state.infos) {
      const AlikeRows rows = alike_rows(spec, info, keys.has_value());
      const int64_t width = info.shape.count() / std::max<int64_t>(1, info.shape[0]);
      update->tensor->parts.push_back({rows.from * width,
                                       rows.by_all ? ranks : static_cast<int64_t>(std::max<size_t>(1, same.size())),
                                       first == 0});
    }
  }
};

}  // namespace tern
