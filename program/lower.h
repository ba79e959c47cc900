#pragma once
// The one lowering: from a placement to the instruction lists of its ranks, at the grain of units, with the buffers that
// the executor will hold. Here a rank is a pipeline's device (RankPlace::device): its ranks share a list.

#include "program/placement.h"
#include "program/program.h"

namespace tern {

/// The list of one rank (0 … devices of the pipeline − 1) of one optimizer step, with its resident buffers.
///
/// forward   RECV of the input; per layer GATHER (ZeRO 3), FORWARD of each unit, STORE (activations off the device);
///           SEND of the output
/// backward  RECV of the output's gradient; per layer from the last LOAD, GATHER (ZeRO 3), and per unit RECOMPUTE,
///           BACKWARD_INPUT and, where the schedule does not split them, BACKWARD_WEIGHT; SEND of the input's gradient. What
///           was gathered ends with the layer's last FORWARD or BACKWARD_WEIGHT (BACKWARD_INPUT where they are split). In
///           one stage a tied head's layer gathers the table with its own parameters
/// weight    BACKWARD_WEIGHT of each unit from the last
/// step      GATHER (micro −1; ZeRO 1, 2) before all; after a layer's last BACKWARD_WEIGHT, on the gradient link, REDUCE
///           (ZeRO 0) or SCATTER (ZeRO 1), with ZeRO 2, 3 a SCATTER of each micro-batch's sum, begun at zero by its first
///           BACKWARD_WEIGHT (the head's FORWARD); REDUCE of a tied table, with ZeRO 2, 3 for each micro-batch; NORM; UPDATE of
///           each unit. Where a tensor group shares out matrices, before a layer's REDUCE or SCATTER over replicas, of the same
///           sum: one REDUCE over the group, of what all its ranks hold alike, and one over the ranks with the same key/value
///           head, of what they do. With updates_in_backward UPDATE of each unit of a layer follows the layer's last
///           BACKWARD_WEIGHT; the layer's gradients, begun at zero by its first (the head's FORWARD), end with the last of them
///
/// Buffers   output(u) lives from FORWARD(u) to BACKWARD_WEIGHT(u+1), which reads it as x; saved(u) from FORWARD(u), or
///           from RECOMPUTE(u) just before the backward, to BACKWARD_WEIGHT(u); gradient(u), made by
///           BACKWARD_INPUT(u+1), and left(u), made by BACKWARD_INPUT(u), to BACKWARD_WEIGHT(u). The head has no output
///           and no gradient: its FORWARD ends in the loss and saves the gradient of its normed input. The embedding
///           has no BACKWARD_INPUT. A layer's activations off the device are `held` there from STORE to LOAD.
/// Joins     What SEND, STORE and SCATTER read lives until their JOIN: room for one transfer on its way while the next
///           is made, for each stage and direction (none for SCATTER). The rest is joined before NORM.
/// Order     weight gradients of a unit are added in micro-batch order, whatever the schedule: same bits.
/// Groups    With several groups of micro-batches each unit has a MERGE after its last BACKWARD_WEIGHT of a group: it merges
///           the group's gradients with the kept sums that leaf_step (spec/sum_order.h) names. Where no sum is added or kept
///           there is no MERGE. A tied table's two gradients are joined before it, by a REDUCE at each group's end.
/// Sizes     spec/unit_cost.h's to the byte, from the placement's query; a message is the boundary tensor; a collective
///           names its axis and the bytes of the whole tensor. Costs of the step's end, per element, in words of 4 bytes
///           (8 of an f64 model): REDUCE of a tied table 1 flop and 4 words, NORM 2 flops and 1 word. A NORM's message holds
///           whether it refuses, under tensor parallelism a double from each rank, and for parameters that are shared out a
///           double, and the rule's sums over the model, for each block of kUpdateBlock elements. An UPDATE of a rule that sums
///           over a parameter sends those sums of each block. UPDATE costs update_cost (spec/update_rule.h), from ZeRO 1 on a
///           replica's share of it; within the backward also what NORM else costs. MERGE costs 1 flop and 3 words for each sum that it adds, and 3 words to keep one.
/// One device  with ZeRO of any kind is plain: nothing is gathered or reduced.
/// Errors    usage: a schedule whose order follows the times, of a plan that does not say its stages' times. TERN_CHECK: stages that do not follow
///           one another, fewer than two units, no such rank.
Program lower(const ModelSpec&, const Placement&, int rank);

/// All ranks in one Program, for the validator and the simulator: rank after rank.
Program lower(const ModelSpec&, const Placement&);

/// The list of a plan's rank. Errors: as placement_of's and lower's.
Program lower(const ModelSpec&, const Plan&, int rank, PlacementOptions = {});

/// The forward alone on one device, as evaluation runs it: nothing is kept for a backward, no output outlives the next
/// unit, and the step ends with the loss. Nothing is resident.
Program lower_forward(const ModelSpec&, const Placement&);

}  // namespace tern
