#pragma once
// Where a training step places its layers: the one input of its Program, for prediction and for execution.

#include <cstdint>

#include "program/placement.h"
#include "spec/model_spec.h"
#include "train/settings.h"

namespace tern {

/// A step of `sequences` sequences on one rank. The plan, or without one the settings, say the size of micro-batches and, of
/// each layer, recomputation and ZeRO; several ranks sum their gradients. Windows are taken to be full, so attended pairs
/// are an upper bound. With a plan of several stages it is the plan's own step, whatever `sequences` says.
Placement step_placement(const ModelSpec&, const TrainSettings&, int64_t sequences);

}  // namespace tern
