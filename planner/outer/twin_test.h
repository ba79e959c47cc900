#pragma once
// Small models and machines, and the judge of plan_model: assignments priced one by one.

#include <algorithm>
#include <functional>
#include <limits>
#include <vector>

#include "base/source_dir_testing.h"
#include "plan/cost_model.h"
#include "plan/legality.h"
#include "planner/instance/price.h"
#include "planner/outer/plan_model.h"
#include "spec/presets.h"
#include "spec/recompute.h"

namespace tern {

constexpr int64_t kGB = 1'000'000'000;

inline ModelSpec small_model(int64_t layers, const char* preset = "llama-2-7b") {
  ModelSpec m = *preset_model(preset);
  ModelSpec s = m;
  s.units.assign(m.units.begin(), m.units.begin() + 1 + 2 * layers);
  s.units.push_back(m.units.back());
  s.layers = layers;
  return s;
}

inline Cluster small_cluster(int64_t devices, int64_t memory_bytes) {
  Cluster c = read_cluster(source_dir() + "/examples/hardware/h100-node.toml");
  c.nodes[0].num_devices = c.nodes[0].link.devices = devices;
  c.devices[0].memory_bytes = memory_bytes + c.devices[0].reserved_bytes;
  return c;
}

// Twin: plain loops over every choice, every cut and every strategy, priced one by one. Shares the cost model and the
// simulator, nothing else.
struct Best {
  int64_t makespan = std::numeric_limits<int64_t>::max();
  OuterChoice choice;
  int64_t priced = 0;
};

inline void try_assignments(const Instance& in, const OuterChoice& choice, Best& best) {
  const int L = in.num_layers(), V = in.num_stages * in.chunks_per_stage;
  Pricer pricer(in);
  Assignment a{std::vector<int>(static_cast<size_t>(L)), std::vector<int>(static_cast<size_t>(L))};
  const std::function<void(int)> choose = [&](int u) {
    if (u == L) {
      if (a.stage.back() != V - 1) return;
      const Priced p = pricer(a);
      ++best.priced;
      if (p.fits() && p.makespan < best.makespan) best.makespan = p.makespan, best.choice = choice;
      return;
    }
    const size_t at = static_cast<size_t>(u);
    for (int s = u ? a.stage[at - 1] : 0; s <= (u ? std::min(V - 1, a.stage[at - 1] + 1) : 0); ++s)
      for (int k = 0; k < static_cast<int>(in.cost[at].size()); ++k) {
        a.stage[at] = s, a.strategy[at] = k;
        choose(u + 1);
      }
  };
  choose(0);
}

// A mesh with every split of its ranks over the experts, if there are any.
inline std::vector<Mesh> expert_meshes(const ModelSpec& spec, Mesh mesh) {
  std::vector<Mesh> out;
  int64_t experts = 1;
  for (const Unit& u : spec.units)
    if (const auto* e = std::get_if<MoeSpec>(&u.spec)) experts = e->experts;
  for (mesh.expert = 1; mesh.expert <= experts; ++mesh.expert)
    for (mesh.expert_tensor = 1; mesh.expert_tensor <= (experts > 1 ? mesh.tensor : 1);
         mesh.expert_tensor += std::max<int64_t>(1, mesh.tensor - 1))
      out.push_back(mesh);
  return out;
}

// Every legal choice of equal nodes with its tables: each layer's rows are the strategies of the space, in one order.
inline void for_each_choice(const ModelSpec& spec, const Cluster& cluster, const TrainJob& job,
                            const SearchSpace& space,
                            const std::function<void(const Instance&, const OuterChoice&)>& visit) {
  const Machine m = machine_of(cluster, 0);
  const std::vector<Layer> layers = layers_of(spec);
  for (int64_t t = 1; t <= m.num_devices(); ++t)
    for (int64_t x = 1; x <= m.num_devices(); ++x)
      for (const bool ulysses : {false, true})
        for (int64_t d = 1; d <= job.batch; ++d)
          for (int64_t b = 1; b <= job.batch; ++b)
            for (int P = 1; P <= m.num_devices(); ++P)
              for (const Mesh& mesh : expert_meshes(spec, {.tensor = t, .context = x, .data = d, .ulysses = ulysses}))
                for (const PipelineSchedule schedule : space.schedules) {
                  if ((ulysses && x == 1) || !why_illegal(spec, job, m, mesh, b).empty()) continue;
                  OuterChoice c{mesh, P, 1, schedule, b, job.batch / (d * b)};
                  if (schedule == PipelineSchedule::interleaved || schedule == PipelineSchedule::zb_v)
                    c.chunks_per_stage = 2;
                  if (P == 1 && (schedule != space.schedules.front())) continue;
                  if (P == 1) c.schedule = PipelineSchedule::one_f_one_b, c.chunks_per_stage = 1;
                  if (!why_illegal_pipeline(m, c, static_cast<int>(layers.size())).empty()) continue;
                  const LayerCosts costs(spec, job, m, mesh, b);
                  Instance in{.num_stages = P,
                              .chunks_per_stage = c.chunks_per_stage,
                              .num_micro = static_cast<int>(c.num_micro),
                              .schedule = c.schedule};
                  for (const Layer& layer : layers) {
                    in.cost.emplace_back();
                    for (const int zero : space.zero)
                      for (const Recompute r : space.recompute)
                        for (const Tier states : space.states)
                          for (const Tier activations : space.activations)
                            in.cost.back().push_back(costs.cost(layer, {zero, r, states, activations}, P > 1));
                  }
                  for (size_t u = 0; u + 1 < layers.size(); ++u) {
                    const size_t pairs = in.cost[u].size() * in.cost[u + 1].size();
                    in.within.emplace_back(pairs);
                    in.across.emplace_back(pairs, costs.edge(layers[u], P * mesh.devices() <= m.node.num_devices));
                  }
                  in.capacity.assign(static_cast<size_t>(P),
                                     {m.device_capacity(), m.host_capacity(), m.disk_capacity()});
                  visit(in, c);
                }
}

inline Best loops_over_everything(const ModelSpec& spec, const Cluster& cluster, const TrainJob& job,
                                  const SearchSpace& space) {
  Best best;
  for_each_choice(spec, cluster, job, space,
                  [&](const Instance& in, const OuterChoice& c) { try_assignments(in, c, best); });
  return best;
}

}  // namespace tern
