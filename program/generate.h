#pragma once
// Programs for one device, made from a model and the sizes of its micro-batches. They are lowered from the placement of
// plan_on_one_device, with these sizes instead of the plan's.

#include <span>

#include "program/lower.h"
#include "spec/recompute.h"

namespace tern {

/// All layers on one device. micro_batches: the sizes of a unit's work in each micro-batch.
Placement placement_of(const ModelSpec&, std::span<const CostQuery> micro_batches, Recompute,
                       const UpdateConfig& = update_config(UpdateRule::adamw));

/// One optimizer step with gradient accumulation. Each micro-batch runs the FORWARD of every unit, then, from the head to the
/// embedding, each unit's BACKWARD_INPUT (but the embedding's) and BACKWARD_WEIGHT. The step ends as in `lower`. All layers have one mode of recomputation.
/// Recompute  A recomputed unit's FORWARD keeps only the output; RECOMPUTE runs the same forward again and keeps `saved`. `attention`
///            recomputes units that hold an attention, `full` also MLPs and mixtures of experts (is_recomputed, spec/recompute.h).
///            The inputs of all units are kept, so each unit is recomputed from its own input.
/// Errors     TERN_CHECK: no units, no micro-batches.
Program training_program(const ModelSpec&, std::span<const CostQuery> micro_batches, Recompute,
                         const UpdateConfig& = update_config(UpdateRule::adamw));

/// The Program of lower_forward for these sizes.
Program forward_program(const ModelSpec&, std::span<const CostQuery> micro_batches);

}  // namespace tern
