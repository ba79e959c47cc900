#include "program/stage_instance.h"

namespace tern {

StageInstance stage_instance(const Placement& p, const PlacementCosts& costs) {
  StageInstance s;
  s.instance = {.num_stages = p.shape.num_devices,
                .chunks_per_stage = p.shape.chunks_per_device,
                .num_micro = p.shape.num_micro,
                .schedule = p.shape.schedule};
  for (const PlacedLayer& l : p.layers) {
    const LayerCosts& of = *costs.layers[device_of(p.shape, l.stage)];
    s.instance.cost.push_back({of.cost(l.layer, l.strategy, p.shape.num_devices > 1)});
    s.assignment.stage.push_back(l.stage);
    s.assignment.strategy.push_back(0);
    if (&l == &p.layers.back()) break;
    const bool ends_stage = (&l)[1].stage != l.stage;
    s.instance.within.push_back({EdgeCost{}});
    s.instance.across.push_back({ends_stage ? costs.links[l.stage] : EdgeCost{}});
  }
  s.instance.capacity.assign(static_cast<size_t>(p.shape.num_devices), TierBytes{});
  return s;
}

}  // namespace tern
