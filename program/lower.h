#pragma once
// The one lowering: from a placement to the instruction lists of its ranks, unit by unit, with the buffers that the
// executor will hold. `rank` here is a device of the pipeline (RankPlace::device), not a rank of the run
// (RankPlace::rank): all ranks of the run at one device have the same list.

#include "program/placement.h"
#include "program/program.h"

namespace tern {

/// The list of one device of the pipeline (`rank`, from 0) of one optimizer step, with the device's resident buffers.
///
/// forward   RECV of the input; per layer GATHER (ZeRO 3), FORWARD of each unit, STORE (activations off the device); SEND
///           of the output
/// backward  RECV of the output's gradient; LOAD of the last layer; per layer, last first: LOAD of the layer before,
///           GATHER (ZeRO 3), and per unit RECOMPUTE, BACKWARD_INPUT and, unless the schedule splits backward passes,
///           BACKWARD_WEIGHT; SEND of the input's gradient. A gathered buffer ends with the pass's last instruction on
///           the layer (if split: BACKWARD_INPUT). In one stage a tied head's layer also gathers the embedding's table
/// weight    BACKWARD_WEIGHT of each unit, last first, if the schedule splits backward passes
/// step      Under ZeRO 1 and 2 the list begins with a GATHER (micro −1) of each layer. A layer's backward ends with the
///           BACKWARD_WEIGHT of its first unit. In the last micro-batch the layer's REDUCE (ZeRO 0) or SCATTER (ZeRO 1)
///           follows, on the gradient link; under ZeRO 2 and 3 a SCATTER follows in every micro-batch. In a tensor group up
///           to two REDUCEs come before, over `tensor` and over `keys`, for parameters that several ranks hold alike.
///           exec/executor.h says when a sum really runs. REDUCE of a tied table: in a pipeline after the sums of the head's
///           layer; else after the embedding's last BACKWARD_WEIGHT of a group of micro-batches (ZeRO 2, 3: of each micro-batch). The
///           list ends with NORM and each unit's UPDATE. With updates_in_backward a layer's UPDATEs end its backward.
/// Buffers   output(u) lives from FORWARD(u) to BACKWARD_WEIGHT(u+1), which reads it as x; saved(u) from FORWARD(u), or from
///           RECOMPUTE(u) just before the backward, to BACKWARD_WEIGHT(u); gradient(u), made by BACKWARD_INPUT(u+1), and
///           left(u), made by BACKWARD_INPUT(u), to BACKWARD_WEIGHT(u). The head has no output and no gradient: its FORWARD
///           ends in the loss and saves the gradient of its normed input. The embedding has no BACKWARD_INPUT. A layer's
///           activations off the device are `held` there from STORE to LOAD. A `summand` begins as zeros at the layer's
///           first BACKWARD_WEIGHT (in the head's layer at the head's FORWARD) and ends with the JOIN of its SCATTER or with
///           the layer's last UPDATE.
/// Joins     What SEND, STORE and SCATTER read lives until their JOIN. Joined, except the newest of each kind: SENDs of
///           outputs before a stage's next forward, SENDs of gradients before the next backward, STOREs before a layer's
///           FORWARDs. Joined in full: STOREs before a LOAD, SCATTERs before a `summand`, all transfers before NORM.
/// Order     weight gradients of a unit are added in micro-batch order, whatever the schedule: same bits.
/// Groups    With several groups of micro-batches a MERGE follows a unit's last BACKWARD_WEIGHT of a group. leaf_step
///           (spec/sum_order.h) says which kept sums the MERGE adds and whether it keeps the result; if neither, there is no
///           MERGE. The REDUCE of a tied table comes before the embedding's MERGE.
/// Sizes     a unit: unit_cost of the placement's query; a message: the boundary tensor; a collective: the whole tensor.
/// Costs     of the step's end, per element, in words of 4 bytes (f64: 8): REDUCE of a tied table 1 flop, 4 words; NORM 2
///           flops, 1 word; MERGE 1 flop, 3 words per sum added, 3 words to keep one; UPDATE update_cost
///           (spec/update_rule.h), from ZeRO 1 on divided by the replicas; if within the backward, with NORM's costs.
/// Messages  NORM of several ranks: 8 bytes (whether a rank refuses). Tensor groups add 8 bytes per rank of the run.
///           Without tensor groups each shared-out block (kUpdateBlock) of parameters adds 8·(1 + the rule's sums over the
///           model); in a pipeline and with expert groups every block. UPDATE of a shared-out unit: 8·(the rule's sums
///           over a parameter) per block. One rank: no GATHER, SCATTER or REDUCE over ranks, under any ZeRO stage.
/// Errors    usage: the schedule's order follows the stages' times, and the plan does not say those times.
///           TERN_CHECK: a stage without layers, fewer than two units, no such device, contradictions in the placement.
Program lower(const ModelSpec&, const Placement&, int rank);

/// The lists of all devices in one Program, for the validator and the simulator: device after device.
Program lower(const ModelSpec&, const Placement&);

/// The list of one device of a plan. Errors: as placement_of's and lower's.
Program lower(const ModelSpec&, const Plan&, int rank, PlacementOptions = {});

/// The list of the forward alone on one device, as evaluation runs it: nothing is kept for a backward, no output
/// outlives the next unit, the step ends with the loss, and nothing is resident.
Program lower_forward(const ModelSpec&, const Placement&);

}  // namespace tern
