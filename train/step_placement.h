#pragma once
// The Placement of a training step that has a backward. `lower` makes the step's Program of it, which is both priced and executed.

#include <cstdint>

#include "program/placement.h"
#include "spec/model_spec.h"
#include "train/settings.h"

namespace tern {

/// The placement of a step in which each data share has `sequences` sequences, in micro-batches as the settings say. With a plan
/// (settings.plan) each layer is recomputed and shared out (ZeRO) as the plan says, else as the settings say. Windows count as full, so the number
/// of attended (query, key) pairs is an upper bound. With a plan of several stages it is the placement of the plan, and `sequences` is not used.
/// Errors  those of placement_of.
Placement step_placement(const ModelSpec&, const TrainSettings&, int64_t sequences);

}  // namespace tern
