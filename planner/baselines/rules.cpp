#include "planner/baselines/rules.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "planner/outer/build_instance_impl.h"
#include "planner/outer/first_plans_impl.h"

namespace tern {
namespace {

// The fastest of some candidates, each with one strategy everywhere.
RulePlan fastest(std::string rule, const SpaceOfChoices& space, const std::vector<int>& candidates) {
  RulePlan best{.rule = std::move(rule)};
  BuiltInstance built;
  for (const int i : candidates) {
    const Candidate& c = space.candidates[static_cast<size_t>(i)];
    build_instance(space, c, built);
    const UniformPlan plan = uniform_plan(space, c, built);
    if (!plan.found || (best.found && plan.makespan >= best.makespan_ps)) continue;
    best.found = true, best.choice = choice_of(space, c), best.makespan_ps = plan.makespan;
  }
  return best;
}

// The space of the request with other ZeRO stages, everything on the device, on the machine with most devices.
SpaceOfChoices space_with(const ModelSpec& spec, const Cluster& cluster, PlanRequest request, std::vector<int> zero,
                          bool one_stage) {
  Cluster largest = cluster;
  const auto most = std::max_element(cluster.groups.begin(), cluster.groups.end(), [&](const auto& a, const auto& b) {
    const auto devices = [&](const NodeGroup& g) {
      return g.count * cluster.nodes[static_cast<size_t>(g.node)].num_devices;
    };
    return devices(a) < devices(b);
  });
  largest.groups = {*most};
  request.space.zero = std::move(zero);
  request.space.states = request.space.activations = {Tier::device};
  request.space.max_context = request.space.max_expert = 1;
  request.seconds = std::numeric_limits<double>::infinity();
  if (one_stage) request.space.max_stages = 1, request.space.max_tensor = 1;
  return enumerate_choices(spec, largest, request);
}

// Candidates that use the most devices.
template <class Keep>
std::vector<int> fullest(const SpaceOfChoices& space, const Keep& keep) {
  std::vector<int> out;
  int64_t most = 0;
  for (size_t i = 0; i < space.candidates.size(); ++i) {
    const OuterChoice c = choice_of(space, space.candidates[i]);
    if (!keep(c) || c.devices() < most) continue;
    if (c.devices() > most) out.clear();
    most = c.devices();
    out.push_back(static_cast<int>(i));
  }
  return out;
}

RulePlan megatron(const ModelSpec& spec, const Cluster& cluster, const PlanRequest& request) {
  const SpaceOfChoices space = space_with(spec, cluster, request, {0, 1}, false);
  const auto plain = [](const OuterChoice& c) { return c.num_stages == 1 || traits_of(c.schedule).megatron; };
  int64_t tensor = 0;
  for (const Candidate& c : space.candidates) {
    const int64_t t = space.tables[static_cast<size_t>(c.tables)].mesh.tensor;
    if (t <= space.machines.front().node.num_devices) tensor = std::max(tensor, t);
  }
  RulePlan none{.rule = "Megatron's rule"};
  for (int stages = 1; stages <= static_cast<int>(space.layers.size()); ++stages) {
    const std::vector<int> of = fullest(
        space, [&](const OuterChoice& c) { return plain(c) && c.mesh.tensor == tensor && c.num_stages == stages; });
    if (RulePlan p = fastest(none.rule, space, of); p.found) return p;
  }
  return none;
}

}  // namespace

std::vector<RulePlan> rules_of_thumb(const ModelSpec& spec, const Cluster& cluster, const PlanRequest& request,
                                     int draws, uint64_t seed) {
  std::vector<RulePlan> out{megatron(spec, cluster, request)};
  const auto any = [](const OuterChoice&) { return true; };
  const SpaceOfChoices sharded = space_with(spec, cluster, request, {3}, true);
  out.push_back(fastest("sharded data parallel alone", sharded, fullest(sharded, any)));
  const SpaceOfChoices plain = space_with(spec, cluster, request, {0}, true);
  out.push_back(fastest("data parallel alone", plain, fullest(plain, any)));

  const SpaceOfChoices all = enumerate_choices(spec, cluster, request);
  std::vector<int> order(all.candidates.size());
  std::iota(order.begin(), order.end(), 0);
  std::erase_if(order, [&](int i) { return any_order(all, all.candidates[static_cast<size_t>(i)]); });
  std::mt19937_64 random(seed);
  std::vector<RulePlan> drawn;
  for (int i = 0; i < draws && !order.empty(); ++i) {
    const RulePlan p = fastest("a random choice", all, {order[random() % order.size()]});
    if (p.found) drawn.push_back(p);
  }
  std::sort(drawn.begin(), drawn.end(),
            [](const RulePlan& a, const RulePlan& b) { return a.makespan_ps < b.makespan_ps; });
  out.push_back(drawn.empty() ? RulePlan{.rule = "a random choice"} : drawn[drawn.size() / 2]);
  return out;
}

}  // namespace tern
