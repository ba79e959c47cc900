#include "train/step_placement.h"

#include "base/rounding.h"
#include "base/wide_type.h"
#include "model/linear.h"
#include "spec/recompute.h"
#include "train/plan_settings.h"
#include "train/settings_ranks.h"

namespace tern {

Placement step_placement(const ModelSpec& spec, const TrainSettings& s, int64_t sequences) {
  if (num_stage_devices(s) > 1)
    return placement_of(spec, *s.plan, {.scratch = scratch_bytes(s.multiply, s.dtype), .update = s.optimizer});
  const TrainJob job{.batch = sequences,
                     .seq = s.seq,
                     .dtype = s.dtype,
                     .gradients = wide_type(s.dtype),
                     .optimizer = s.optimizer.rule};
  const std::vector<Recompute> modes = s.plan ? planned_recompute(*s.plan) : std::vector{s.recompute};
  Placement p = placement_of(spec, plan_on_one_device(spec, job, modes, s.micro_batch),
                             {.scratch = scratch_bytes(s.multiply, s.dtype), .update = s.optimizer});
  const std::vector<int> zero = zero_of_units(spec, s);
  for (PlacedLayer& l : p.layers) l.strategy.zero = zero[static_cast<size_t>(l.layer.first)];
  p.mesh.data = s.outer ? 1 : data_parallel_size(s), p.mesh.tensor = s.tensor;
  p.mesh.context = s.context_ranks, p.mesh.ulysses = s.context_ranks > 1 && !s.context_ring;
  p.mesh.expert = s.expert_ranks;
  p.updates_in_backward = s.update_in_backward;
  if (s.states_on_disk)
    for (PlacedLayer& l : p.layers) l.strategy.states = Tier::disk;
  p.groups = static_cast<int>(s.sum_order.groups / data_parallel_size(s));
  if (s.tensor * s.context_ranks * s.expert_ranks > 1)
    p.query = [query = p.query, tensor = s.tensor, context = s.context_ranks, experts = s.expert_ranks,
               capacity = s.capacity_factor](int unit, int micro) {
      CostQuery q = query(unit, micro);
      q.tensor = tensor, q.expert = experts, q.capacity_factor = capacity;
      q.tokens = ceil_div(q.tokens, context), q.attended_pairs = ceil_div(q.attended_pairs, context);
      return q;
    };
  if (s.robust) p.aggregate_values = robust_values(*s.robust, s.ranks);
  return p;
}

}  // namespace tern
