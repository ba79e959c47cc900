#pragma once
// The times of a Program, beside its list: picoseconds per instruction.

#include <cstdint>
#include <vector>

#include "plan/cost_model.h"
#include "plan/instance.h"
#include "program/placement.h"
#include "program/program.h"

namespace tern {

/// Who prices a placement.
struct PlacementCosts {
  std::vector<const LayerCosts*> layers;  // per rank: its machine's
  std::vector<EdgeCost> links;            // behind each virtual stage but the last, each way
};

/// What the cost model says of each instruction; the Program is lower's of the same placement. Units: ps.
/// Units of a layer  take the cost model's times of each; what the layer takes more (a gather of ZeRO 3 that its own
///                   compute does not hide, say) falls on the unit that the pass comes to last. UPDATE shares the
///                   layer's by trained parameters.
/// Collectives       GATHER before the first forward takes the layer's `begin`; where nothing hides it, its entry time;
///                   the layer's first REDUCE or SCATTER of the step's end its `sync`; the others run behind compute
///                   and take none. JOIN and NORM take none.
/// Simulated with these times, a Program agrees with the stage model (stage_instance) as program/README.md says.
std::vector<int64_t> instruction_times(const Program&, const ModelSpec&, const Placement&, const PlacementCosts&);

/// The same placement as the stage model takes it: one strategy to each layer.
struct StageInstance {
  Instance instance;
  Assignment assignment;
};
StageInstance stage_instance(const Placement&, const PlacementCosts&);

/// What a rough machine makes of each instruction: max(flops / flops_per_s, bytes_moved / bytes_per_s). Units: ps.
struct Rates {
  double flops_per_s = 1e11, bytes_per_s = 1e10;
};
std::vector<int64_t> instruction_times(const Program&, const Rates&);

}  // namespace tern
