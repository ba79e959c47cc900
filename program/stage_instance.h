#pragma once
// A placement as the search's stage model takes it (program/stage_model.h).

#include "plan/instance.h"
#include "program/instruction_times.h"
#include "program/placement.h"

namespace tern {

/// The same placement as the stage model takes it: one strategy to each layer.
struct StageInstance {
  Instance instance;
  Assignment assignment;
};
StageInstance stage_instance(const Placement&, const PlacementCosts&);

}  // namespace tern
