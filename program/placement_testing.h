#pragma once
// Placements for tests: a small model on any schedule, with random strategies, priced by the cost model.

#include <algorithm>
#include <memory>
#include <random>

#include "hardware/cluster.h"
#include "hardware/machine.h"
#include "hardware/machines.h"
#include "program/instruction_times.h"
#include "program/lower.h"
#include "program/pipeline_run.h"
#include "program/stage_instance.h"
#include "program/stage_model.h"
#include "spec/recompute.h"

namespace tern {

/// `layers` blocks of attention and mlp between embedding and head, of width 16.
inline ModelSpec small_spec(int64_t layers = 2, bool gated = true, bool tied = false) {
  const NormSpec norm{.kind = NormKind::rms, .width = 16};
  ModelSpec s{.family = "llama", .vocab = 40, .width = 16, .layers = layers, .context = 64};
  s.units.push_back({-1, EmbedSpec{40, 16, 0}});
  for (int layer = 0; layer < layers; ++layer) {
    s.units.push_back({layer, AttentionSpec{norm, 16, 4, 2, 4, false, false, 0}});
    s.units.push_back({layer, MlpSpec{norm, 16, 24, ActivationKind::silu, gated, false}});
  }
  s.units.push_back({-1, HeadSpec{norm, 16, 40, tied}});
  return s;
}

struct PlacedCase {
  ModelSpec spec;
  Plan plan;
  Cluster cluster;
  std::shared_ptr<Machine> machine;
  std::shared_ptr<TrainJob> job;
  std::shared_ptr<LayerCosts> costs;  // of job and machine
  Placement placement;
  PlacementCosts prices;

  PlacedCase(ModelSpec s, Plan p) : spec(std::move(s)), plan(std::move(p)) {
    plan.parameters = num_parameters(spec);
    cluster = with_nodes(find_cluster("a100-80g"), 1 + plan.choice.devices() / 8);
    machine = std::make_shared<Machine>(machine_of(cluster, 0));
    job = std::make_shared<TrainJob>(plan.job);
    costs = std::make_shared<LayerCosts>(spec, *job, *machine, plan.choice.mesh, plan.choice.micro_batch);
    placement = placement_of(spec, plan);
    const auto devices = static_cast<size_t>(placement.shape.num_devices);
    prices.layers.assign(devices, costs.get());
    for (size_t l = 0; l + 1 < placement.layers.size(); ++l)
      if (placement.layers[l + 1].stage != placement.layers[l].stage)
        prices.links.push_back(costs->edge(placement.layers[l].layer, false));
    if (order_follows_times(placement.shape.schedule)) placement.order = order();
  }
  // The plan as `tern plan` writes it: with its ranks and its stages' times.
  void say_stages() {
    const PipelineTimes t = times();
    plan.ranks.assign(t.begin.size(), {.node = machine->node.name});
    for (size_t d = 0; d < t.begin.size(); ++d) plan.ranks[d].begin_ps = t.begin[d], plan.ranks[d].tail_ps = t.tail[d];
    for (size_t s = 0; s < t.forward.size(); ++s) {
      const bool last = s + 1 == t.forward.size();
      plan.stages.push_back(
          {t.forward[s], t.backward[s], t.weight[s], last ? 0 : t.send_forward[s], last ? 0 : t.send_backward[s]});
    }
  }
  PipelineTimes times() const {
    const StageInstance s = stage_instance(placement, prices);
    return stage_times(s.instance, s.assignment);
  }
  PipelineOrder order() const { return pipeline_order(placement.shape, times()); }
  int64_t stage_makespan() const { return run_pipeline(placement.shape, order(), times()).makespan; }
  std::vector<TierBytes> stage_peaks() const {
    const StageInstance s = stage_instance(placement, prices);
    return peak_bytes(placement.shape, order(), stage_bytes(s.instance, s.assignment));
  }
  std::vector<int64_t> prices_of(const Program& p) const { return instruction_times(p, spec, placement, prices); }
};

/// What a random case may have.
struct CaseParts {
  bool replicas = true, late_tables = true, offload = false;
  bool experts = false;  // in every other block
};

/// Every other MLP becomes eight experts, of which a token has two, and one for all.
inline void give_experts(ModelSpec& spec) {
  for (Unit& u : spec.units)
    if (const auto* mlp = std::get_if<MlpSpec>(&u.spec); mlp && u.layer % 2 == 1)
      u.spec = MoeSpec{mlp->norm, 16, 12, 8, 2, 20, ActivationKind::silu, true};
}

inline PlacedCase random_placed(PipelineSchedule schedule, const CaseParts& parts, uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto between = [&](int low, int high) { return low + static_cast<int>(random() % uint64_t(high - low + 1)); };
  Plan p{.job = {.seq = 16, .dtype = between(0, 1) ? DType::bf16 : DType::f32}};
  OuterChoice& c = p.choice;
  c.schedule = schedule;
  c.num_stages = between(1, 4);
  c.chunks_per_stage = traits_of(schedule).chunks == ChunkRule::several ? between(1, 3) : least_chunks(schedule);
  if (c.num_stages == 1 && !traits_of(schedule).v_shaped) c.chunks_per_stage = 1;  // the planner makes no others
  c.num_micro = traits_of(schedule).micro_divides_by_stages ? c.num_stages * between(1, 3) : between(1, 9);
  c.micro_batch = between(1, 3);
  c.mesh = {.tensor = between(1, 2), .data = parts.replicas ? between(1, 3) : 1};
  if (parts.experts) {
    c.mesh.expert_tensor = c.mesh.tensor > 1 && between(0, 1) ? c.mesh.tensor : 1;
    c.mesh.expert = between(0, 1) ? c.mesh.data : 1;
    if (8 % c.mesh.expert != 0) c.mesh.expert = 1;
    p.job.capacity_factor = 8;
  }
  p.job.batch = c.num_micro * c.micro_batch * c.mesh.data;
  const int stages = c.num_stages * c.chunks_per_stage, layers = std::max(stages, 3) + between(0, 4);
  std::vector<int> cuts(static_cast<size_t>(layers) - 1);  // layers that begin a stage
  for (int l = 1; l < layers; ++l) cuts[static_cast<size_t>(l) - 1] = l;
  std::shuffle(cuts.begin(), cuts.end(), random);
  for (int l = 0, stage = 0; l < layers; ++l) {
    if (std::find(cuts.begin(), cuts.begin() + stages - 1, l) < cuts.begin() + stages - 1) ++stage;
    PlannedLayers one{.first = l, .count = 1, .stage = stage};
    one.strategy = {.zero = parts.replicas ? between(0, 3) : 0, .recompute = static_cast<Recompute>(between(0, 2))};
    if (between(0, 3) == 0) one.strategy.states = Tier::host;
    if (parts.offload) one.strategy.activations = static_cast<Tier>(between(0, 2));
    p.layers.push_back(one);
  }
  ModelSpec spec = small_spec(layers - 2, between(0, 1) == 1, parts.late_tables && between(0, 1) == 1);
  if (parts.experts) give_experts(spec);
  return {std::move(spec), std::move(p)};
}

/// Two stages, two micro-batches, two data ranks: layers embedding, block | block, head.
inline PlacedCase small_placed(int zero = 0) {
  Plan p{.job = {.batch = 4, .seq = 16, .dtype = DType::f32}};
  p.choice = {.mesh = {.data = 2}, .num_stages = 2, .num_micro = 2};
  const LayerStrategy strategy{.zero = zero, .recompute = Recompute::full};
  p.layers = {{.first = 0, .count = 2, .stage = 0, .strategy = strategy},
              {.first = 2, .count = 2, .stage = 1, .strategy = strategy}};
  return {small_spec(), std::move(p)};
}
inline Program small_program() {
  const PlacedCase c = small_placed();
  return lower(c.spec, c.placement);
}

/// The times of the same list, if what a transfer reads could wait for ever: no JOIN waits.
inline Program without_joins(Program p) {
  for (Instruction& i : p.instructions)
    if (i.op == Opcode::join) i.waits.clear();
  return p;
}

}  // namespace tern
