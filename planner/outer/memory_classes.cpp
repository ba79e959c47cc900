// A plan's bytes by what they are for: what lies there all the time, layer by layer, and what is held at the moment of
// each device's peak.
#include <map>

#include "base/error.h"
#include "planner/instance/price.h"
#include "planner/outer/memory_classes_impl.h"

namespace tern {
std::vector<PlannedMemoryByTier> memory_classes(const SpaceOfChoices& space, const Candidate& c, const Instance& in,
                                                const Assignment& a, const Priced& priced) {
  const ChoiceTables& t = space.tables[static_cast<size_t>(c.tables)];
  std::vector<PlannedMemoryByTier> ranks(static_cast<size_t>(c.num_stages));
  std::map<const Machine*, LayerCosts> costs;
  for (size_t u = 0; u < a.stage.size(); ++u) {
    const int d = device_of(priced.shape, a.stage[u]);
    const Machine& machine = machine_of_stage(space, c, d);
    const auto [of, made] = costs.try_emplace(&machine, *space.spec, space.job, machine, t.mesh, t.micro_batch,
                                              space.machines.size() > 1, space.pinned.framework);
    const Layer& layer = space.layers[u];
    const auto& rows = t.kinds[static_cast<size_t>(layer.kind)];
    const LayerStrategy& strategy = rows.strategy[form_of(c)][static_cast<size_t>(a.strategy[u])];
    const PlannedMemoryByTier own = of->second.persistent(layer, strategy, form_of(c) != kWhole);
    for (size_t tier = 0; tier < kTiers; ++tier) {
      PlannedMemory& all = ranks[static_cast<size_t>(d)][tier];
      all.weights += own[tier].weights, all.gradients += own[tier].gradients, all.optimizer += own[tier].optimizer;
    }
  }
  const PipelineOrder order = pipeline_order(priced.shape, priced.times);
  const AssignmentBytes bytes = stage_bytes(in, a);
  for (size_t tier = 0; tier < kTiers; ++tier) {
    const std::vector<PipelinePeak> peaks = peak_moments(priced.shape, order, bytes, static_cast<Tier>(tier));
    for (size_t d = 0; d < ranks.size(); ++d) {
      PlannedMemory& all = ranks[d][tier];
      all.activations = peaks[d].held, all.buffers = peaks[d].transient;
      TERN_CHECK(all.total() == priced.peak[d][tier], "memory_classes: {} bytes on rank {}, priced {}", all.total(), d,
                 priced.peak[d][tier]);
    }
  }
  return ranks;
}

}  // namespace tern
