// A candidate as the search's Instance, and the answer back as layers of a plan.
#include <algorithm>

#include "planner/outer/build_instance_impl.h"
#include "planner/outer/candidates_impl.h"

namespace tern {

OuterChoice choice_of(const SpaceOfChoices& space, const Candidate& c) {
  const ChoiceTables& t = space.tables[static_cast<size_t>(c.tables)];
  return {.mesh = t.mesh,
          .num_stages = c.num_stages,
          .chunks_per_stage = c.chunks,
          .schedule = static_cast<PipelineSchedule>(c.schedule),
          .micro_batch = t.micro_batch,
          .num_micro = c.num_micro};
}

namespace {

// Links behind layer u, by its strategy and the next layer's.
std::vector<EdgeCost> links_of(const SpaceOfChoices& space, const ChoiceTables& t, int form, size_t u, bool near) {
  const size_t kind = static_cast<size_t>(space.layers[u].kind), next = static_cast<size_t>(space.layers[u + 1].kind);
  const size_t rows = t.kinds[kind].cost[form].size(), columns = t.kinds[next].cost[form].size();
  if (t.group != kMixed) return std::vector<EdgeCost>(rows * columns, t.edge[near][kind]);
  std::vector<EdgeCost> links;
  for (const int a : t.kinds[kind].machine[form])
    for (const int b : t.kinds[next].machine[form])
      links.push_back(near && a == b
                          ? t.inside[kind][static_cast<size_t>(a)]
                          : t.between[kind][static_cast<size_t>(a) * space.machines.size() + static_cast<size_t>(b)]);
  return links;
}

}  // namespace

void build_instance(const SpaceOfChoices& space, const Candidate& c, BuiltInstance& built) {
  const ChoiceTables& t = space.tables[static_cast<size_t>(c.tables)];
  const int form = form_of(c);
  const std::vector<bool> near = in_one_node(space, c);
  const auto num_near = std::count(near.begin(), near.end(), true);
  const int inside = num_near == 0 ? 0 : num_near == static_cast<int64_t>(near.size()) ? 1 : 2;
  Instance& in = built.instance;
  if (built.tables != c.tables || built.form != form || built.inside != inside) {
    in = {};
    const size_t L = space.layers.size();
    for (const Layer& layer : space.layers) {
      in.cost.push_back(t.kinds[static_cast<size_t>(layer.kind)].cost[form]);
      in.layer_class.push_back(layer.kind);
      if (t.group == kMixed) in.strategy_type.push_back(t.kinds[static_cast<size_t>(layer.kind)].machine[form]);
    }
    for (size_t u = 0; u + 1 < L; ++u) {
      in.within.emplace_back(in.cost[u].size() * in.cost[u + 1].size());
      in.across.push_back(links_of(space, t, form, u, inside == 1));
      if (inside < 2) continue;
      if (in.other_across.empty()) in.other_across.emplace_back();
      in.other_across[0].push_back(links_of(space, t, form, u, true));
    }
    built.tables = c.tables, built.form = form, built.inside = inside;
  }
  in.num_stages = c.num_stages, in.chunks_per_stage = c.chunks, in.num_micro = static_cast<int>(c.num_micro);
  in.schedule = static_cast<PipelineSchedule>(c.schedule);
  in.link_class.clear();
  if (inside == 2) in.link_class.assign(near.begin(), near.end());
  in.capacity.clear(), in.stage_type.clear();
  const bool any = any_order(space, c);
  for (int s = 0; s < c.num_stages; ++s)
    in.capacity.push_back(any ? most_capacity(space, t) : capacity_of(machine_of_stage(space, c, s)));
  if (t.group == kMixed) in.stage_type = space.orders[static_cast<size_t>(c.order)];
}

std::vector<PlannedLayers> planned_layers(const SpaceOfChoices& space, const Candidate& c, const Assignment& a) {
  const ChoiceTables& t = space.tables[static_cast<size_t>(c.tables)];
  std::vector<PlannedLayers> out;
  for (int u = 0; u < static_cast<int>(space.layers.size()); ++u) {
    const size_t at = static_cast<size_t>(u);
    const auto& rows = t.kinds[static_cast<size_t>(space.layers[at].kind)];
    const LayerStrategy& s = rows.strategy[form_of(c)][static_cast<size_t>(a.strategy[at])];
    if (!out.empty() && out.back().stage == a.stage[at] && out.back().strategy == s)
      ++out.back().count;
    else
      out.push_back({u, 1, a.stage[at], s});
  }
  return out;
}

}  // namespace tern
