#pragma once
// Generators: from a model and the sizes of its micro-batches to a Program. One rank; the planner's generators and
// passes extend the same list to many.

#include <span>

#include "program/program.h"
#include "spec/model_spec.h"
#include "spec/unit_cost.h"
#include "spec/update_rule.h"

namespace tern {

/// One optimizer step with gradient accumulation: per micro-batch every FORWARD, then from the head down BACKWARD_INPUT
/// and BACKWARD_WEIGHT of each unit. At the end of the step REDUCE(0), only where the head is tied to the embedding; NORM;
/// and UPDATE of each unit.
///
/// Buffers  output(u) lives from FORWARD(u) to BACKWARD_WEIGHT(u+1), which reads it as x; saved(u) from FORWARD(u) (or,
/// for a
///          recomputed unit, from RECOMPUTE(u) just before the backward) to BACKWARD_WEIGHT(u); gradient(u), made by
///          BACKWARD_INPUT(u+1), and left(u), made by BACKWARD_INPUT(u), to BACKWARD_WEIGHT(u). The head has no output
///          and no gradient: its FORWARD ends in the loss and saves the gradient of its normed input. The embedding has
///          no BACKWARD_INPUT.
/// Recompute  of a unit: its FORWARD keeps nothing, RECOMPUTE runs the same forward again and keeps. `attention` does
/// so for
///          attention units, `full` for attention and mlp units; unit inputs are kept, so each unit recomputes alone.
/// Order    weight gradients of a unit are added in micro-batch order, whatever the recomputation: same bits.
/// Costs    one CostQuery per micro-batch; bytes are spec/unit_cost.h's to the byte. Per element, in words of 4 bytes (8
///          of an f64 model): REDUCE 1 flop and 4 words, NORM 2 flops and 1 word; UPDATE as spec/update_rule.h's
///          update_cost.
/// Errors   TERN_CHECK: no units, no micro-batches.
Program training_program(const ModelSpec&, std::span<const CostQuery> micro_batches, Recompute,
                         const UpdateConfig& = update_config(UpdateRule::adamw));

/// The forward alone, as evaluation runs it: nothing is kept for a backward, no output outlives the next unit, and the
/// step ends with the loss.
Program forward_program(const ModelSpec&, std::span<const CostQuery> micro_batches);

}  // namespace tern
