#include "program/placement.h"

#include "base/error.h"
#include "plan/ceil_div.h"
#include "plan/window_mix.h"

namespace tern {

Placement on_one_device(const ModelSpec& spec, const TrainJob& job, const UpdateConfig& update,
                        std::span<const Recompute> recompute, int num_micro,
                        std::function<CostQuery(int unit, int micro)> query) {
  const std::vector<Layer> layers = layers_of(spec);
  TERN_CHECK(recompute.size() == 1 || recompute.size() == layers.size(),
             "on_one_device: {} modes of recomputation for {} layers", recompute.size(), layers.size());
  Placement p{.job = job,
              .update = update,
              .mesh = {},
              .shape = {.schedule = PipelineSchedule::one_f_one_b, .num_micro = num_micro},
              .layers = {},
              .query = std::move(query),
              .order = {}};
  for (size_t i = 0; i < layers.size(); ++i)
    p.layers.push_back({layers[i], 0, {.recompute = recompute[recompute.size() == 1 ? 0 : i]}});
  return p;
}

Placement placement_of(const ModelSpec& spec, const Plan& plan, ScratchBytes scratch) {
  const std::vector<Layer> layers = layers_of(spec);
  size_t planned = 0;
  for (const PlannedLayers& l : plan.layers) planned += static_cast<size_t>(l.count);
  if (planned != layers.size() || plan.parameters != num_parameters(spec))
    throw Error(
        ErrorKind::usage,
        "the plan is of another model ('{}': {} layers, {} parameters); this one has {} and {}: plan anew for it",
        plan.model, planned, plan.parameters, layers.size(), num_parameters(spec));
  const OuterChoice& c = plan.choice;
  Placement p{.job = plan.job,
              .update = update_config(plan.job.optimizer),
              .mesh = c.mesh,
              .shape = {c.schedule, c.num_stages, c.chunks_per_stage, static_cast<int>(c.num_micro)},
              .layers = {},
              .query = {},
              .order = {}};
  p.job.lengths = {};
  for (const PlannedLayers& l : plan.layers)
    for (int i = 0; i < l.count; ++i)
      p.layers.push_back({layers[static_cast<size_t>(l.first + i)], l.stage, l.strategy});
  p.query = [units = spec.units, job = p.job, c, scratch = std::move(scratch)](int unit, int) {
    CostQuery q{.tokens = c.micro_batch * ceil_div(job.seq, c.mesh.context),
                .dtype = job.dtype,
                .scratch = scratch,
                .tensor = c.mesh.tensor,
                .expert = c.mesh.expert,
                .expert_tensor = c.mesh.expert_tensor,
                .capacity_factor = job.capacity_factor};
    if (const AttentionSpec* a = attention_of(units[static_cast<size_t>(unit)]))
      q.attended_pairs = ceil_div(micro_batch_pairs(job, *a, c.micro_batch, c.mesh.data, 1), c.mesh.context);
    return q;
  };
  return p;
}

}  // namespace tern
