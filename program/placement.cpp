#include "program/placement.h"

#include <algorithm>

#include "base/error.h"
#include "base/rounding.h"
#include "spec/attended_pairs.h"
#include "spec/recompute.h"

namespace tern {
namespace {

PipelineShape shape_of(const OuterChoice& c) {
  return {c.schedule, c.num_stages, c.chunks_per_stage, static_cast<int>(c.num_micro)};
}

void check_model(const ModelSpec& spec, const Plan& plan, size_t layers) {
  size_t planned = 0;
  for (const PlannedLayers& l : plan.layers) planned += static_cast<size_t>(l.count);
  if (planned != layers || plan.parameters != num_parameters(spec))
    throw Error(
        ErrorKind::usage,
        "the plan is of another model ('{}': {} layers, {} parameters); this one has {} and {}: plan anew for it",
        plan.model, planned, plan.parameters, layers, num_parameters(spec));
}

}  // namespace

Placement placement_of(const ModelSpec& spec, const Plan& plan, PlacementOptions options) {
  const std::vector<Layer> layers = layers_of(spec);
  check_model(spec, plan, layers.size());
  const OuterChoice& c = plan.choice;
  Placement p{.job = plan.job,
              .update = options.update.value_or(update_config(plan.job.optimizer)),
              .mesh = c.mesh,
              .shape = shape_of(c),
              .layers = {},
              .query = {},
              .order = {}};
  p.job.lengths = {};
  for (const PlannedLayers& l : plan.layers)
    for (int i = 0; i < l.count; ++i)
      p.layers.push_back({layers[static_cast<size_t>(l.first + i)], l.stage, l.strategy});
  if (order_follows_times(c.schedule) && !plan.stages.empty()) p.order = pipeline_order(p.shape, times_of(plan));
  p.query = [units = spec.units, job = p.job, c, scratch = std::move(options.scratch)](int unit, int m) {
    const int64_t windows = std::min(c.micro_batch, ceil_div(job.batch, c.mesh.data) - m * c.micro_batch);
    CostQuery q{.tokens = windows * ceil_div(job.seq, c.mesh.context),
                .dtype = job.dtype,
                .scratch = scratch,
                .tensor = c.mesh.tensor,
                .expert = c.mesh.expert,
                .expert_tensor = c.mesh.expert_tensor,
                .capacity_factor = job.capacity_factor};
    if (const AttentionSpec* a = attention_of(units[static_cast<size_t>(unit)]))
      q.attended_pairs = ceil_div(windows * attended_pairs(*a, job.seq), c.mesh.context);
    return q;
  };
  return p;
}

Plan plan_on_one_device(const ModelSpec& spec, const TrainJob& job, std::span<const Recompute> recompute,
                        int64_t micro_batch) {
  const auto layers = static_cast<int>(layers_of(spec).size());
  const bool alike = recompute.size() == 1;
  TERN_CHECK(alike || std::ssize(recompute) == layers, "plan_on_one_device: {} modes of recomputation for {} layers",
             recompute.size(), layers);
  Plan plan{.parameters = num_parameters(spec), .job = job};
  plan.choice = {.micro_batch = micro_batch, .num_micro = ceil_div(job.batch, micro_batch)};
  for (int i = 0; i < layers; ++i)
    plan.layers.push_back({.first = i, .strategy = {.recompute = recompute[alike ? 0 : static_cast<size_t>(i)]}});
  return plan;
}

PipelineTimes times_of(const Plan& plan) {
  TERN_CHECK(std::ssize(plan.stages) == shape_of(plan.choice).num_virtual_stages(), "times_of: {} stages of {}",
             plan.stages.size(), shape_of(plan.choice).num_virtual_stages());
  PipelineTimes t;
  for (const PlannedStage& s : plan.stages) {
    t.forward.push_back(s.forward_ps), t.backward.push_back(s.backward_ps), t.weight.push_back(s.weight_ps);
    t.send_forward.push_back(s.send_forward_ps), t.send_backward.push_back(s.send_backward_ps);
  }
  t.send_forward.pop_back(), t.send_backward.pop_back();
  for (const PlannedRank& r : plan.ranks) t.begin.push_back(r.begin_ps), t.tail.push_back(r.tail_ps);
  return t;
}

}  // namespace tern
