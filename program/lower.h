#pragma once
// The one lowering: from a placement to the instruction lists of its ranks, at the grain of units, with the buffers
// that the executor will hold. `rank` here is a device of the pipeline (RankPlace::device), not a rank of the run
// (RankPlace::rank): all ranks of the run at one device have the same list.

#include "program/placement.h"
#include "program/program.h"

namespace tern {

/// The list of one device of the pipeline (`rank`, from 0) of one optimizer step, with its resident buffers.
///
/// forward   RECV of the input; per layer GATHER (ZeRO 3), FORWARD of each unit, STORE (activations off the device);
///           SEND of the output
/// backward  RECV of the output's gradient; per layer, last first: LOAD, GATHER (ZeRO 3), and per unit RECOMPUTE,
///           BACKWARD_INPUT and, where the schedule does not split them, BACKWARD_WEIGHT; SEND of the input's gradient.
///           A gathered buffer ends with the layer's last FORWARD or BACKWARD_WEIGHT (BACKWARD_INPUT where they are
///           split). In a plan of one stage the layer of a tied head gathers the table with its own parameters
/// weight    BACKWARD_WEIGHT of each unit from the last
/// step      Before all else a GATHER (micro −1) under ZeRO 1 and 2. After a layer's last BACKWARD_WEIGHT, on the gradient link,
///           its REDUCE (ZeRO 0) or SCATTER (ZeRO 1); under ZeRO 2 and 3 a SCATTER of each micro-batch's sum, which the layer's first
///           BACKWARD_WEIGHT (for the head, its FORWARD) sets to zero. Then the REDUCE of a tied table (on one device under ZeRO 2
///           and 3 one for each micro-batch), NORM, and the UPDATE of each unit. In a tensor group the layer's REDUCE or SCATTER comes
///           behind up to two REDUCEs of parts of the same gradients: over the group, of what all its ranks hold; over the ranks with
///           the same key/value head, of what these hold. With updates_in_backward a layer's UPDATEs follow its last BACKWARD_WEIGHT and end the
///           layer's gradients, which its first BACKWARD_WEIGHT (for the head, its FORWARD) has set to zero
///
/// Buffers   output(u) lives from FORWARD(u) to BACKWARD_WEIGHT(u+1), which reads it as x; saved(u) from FORWARD(u), or
///           from RECOMPUTE(u) just before the backward, to BACKWARD_WEIGHT(u); gradient(u), made by
///           BACKWARD_INPUT(u+1), and left(u), made by BACKWARD_INPUT(u), to BACKWARD_WEIGHT(u). The head has no output
///           and no gradient: its FORWARD ends in the loss and saves the gradient of its normed input. The embedding
///           has no BACKWARD_INPUT. A layer's activations off the device are `held` there from STORE to LOAD.
/// Joins     What SEND, STORE and SCATTER read lives until their JOIN. A stage's SENDs in one direction are joined before its next operation in
///           it, STOREs before a layer's FORWARDs, all but the newest; all STOREs before a LOAD, SCATTERs before a new `summand`, all before NORM.
/// Order     weight gradients of a unit are added in micro-batch order, whatever the schedule: same bits.
/// Groups    With several groups of micro-batches each unit has a MERGE after its last BACKWARD_WEIGHT of a group: it
///           merges the group's gradients with the kept sums that leaf_step (spec/sum_order.h) names. Where no sum is
///           added or kept there is no MERGE. A tied table's two gradients are joined before it, by a REDUCE at each
///           group's end.
/// Sizes     spec/unit_cost.h's to the byte, from the placement's query; a message is the boundary tensor; a collective
///           names its axis and the bytes of the whole tensor. Costs of the step's end, per element, in words of 4
///           bytes (f64: 8): REDUCE of a tied table 1 flop and 4 words, NORM 2 flops and 1 word, MERGE 1 flop and 3
///           words per sum added, 3 words to keep one. UPDATE costs update_cost (spec/update_rule.h), from ZeRO 1 on a
///           replica's share of it; an UPDATE within the backward also costs what NORM would. The message of NORM is 8
///           bytes for the refusal; with tensor groups also 8 for each rank of the run; without them also 8·(1 + the rule's sums over the
///           model) for each block (kUpdateBlock) of shared-out parameters, in a pipeline and with expert groups of all. That of an UPDATE of shared-out
///           parameters is 8·(the rule's sums over a parameter) for each block.
/// One device  gathers and reduces nothing, under any ZeRO stage.
/// Errors    usage: a schedule whose order follows the times, in a plan that does not say its stages' times.
///           TERN_CHECK: stages that do not follow one another, fewer than two units, no such device.
Program lower(const ModelSpec&, const Placement&, int rank);

/// The lists of all devices in one Program, for the validator and the simulator: device after device.
Program lower(const ModelSpec&, const Placement&);

/// The list of one device of a plan. Errors: as placement_of's and lower's.
Program lower(const ModelSpec&, const Plan&, int rank, PlacementOptions = {});

/// The list of the forward alone on one device, as evaluation runs it: nothing is kept for a backward, no output
/// outlives the next unit, the step ends with the loss, and nothing is resident.
Program lower_forward(const ModelSpec&, const Placement&);

}  // namespace tern
