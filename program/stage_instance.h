#pragma once
// A placement as the search's stage model takes it (program/stage_model.h).

#include "plan/instance.h"
#include "program/instruction_times.h"
#include "program/placement.h"

namespace tern {

/// A placement as an Instance, with one strategy for each layer, and its Assignment.
struct StageInstance {
  Instance instance;
  Assignment assignment;
};
/// The instance of a placement at these costs.
StageInstance stage_instance(const Placement&, const PlacementCosts&);

}  // namespace tern
