#pragma once
// Programs for one device, made from the sizes of micro-batches alone. They are lowered from plan_on_one_device with
// these sizes in the place of the plan's.

#include <span>

#include "program/lower.h"
#include "spec/recompute.h"

namespace tern {

/// All layers on one device. micro_batches: the sizes of a unit's work in each micro-batch.
Placement placement_of(const ModelSpec&, std::span<const CostQuery> micro_batches, Recompute,
                       const UpdateConfig& = update_config(UpdateRule::adamw));

/// One optimizer step with gradient accumulation: per micro-batch every FORWARD, then from the head down BACKWARD_INPUT
/// and BACKWARD_WEIGHT of each unit; at the end of the step as in lower. Every layer recomputes alike.
/// Recompute  of a unit: its FORWARD keeps nothing, RECOMPUTE runs the same forward again and keeps. `attention` does
///            so for units that hold an attention, `full` also for MLPs and mixtures (is_recomputed, spec/recompute.h).
///            Unit inputs are kept, so each unit recomputes alone.
/// Errors     TERN_CHECK: no units, no micro-batches.
Program training_program(const ModelSpec&, std::span<const CostQuery> micro_batches, Recompute,
                         const UpdateConfig& = update_config(UpdateRule::adamw));

/// The Program of lower_forward for these sizes.
Program forward_program(const ModelSpec&, std::span<const CostQuery> micro_batches);

}  // namespace tern
