#pragma once
// Lowering: turns a placement into instruction lists, unit by unit, with the buffers that the executor will hold.
// The parameter `rank` is a device of the pipeline (RankPlace::device). All ranks of the run at one device have the
// same list. In the comments on tensor groups, sums over ranks and messages, ranks are ranks of the run (RankPlace::rank).

#include "program/placement.h"
#include "program/program.h"

namespace tern {

/// The list of one optimizer step for one device of the pipeline (`rank`, from 0), with the device's resident buffers.
/// forward   RECV of the input; per layer GATHER (ZeRO 3), FORWARDs, STORE (activations off device); SEND of the output
/// backward  RECV of the output's gradient; LOAD of the last layer; per layer, last first: LOAD of the layer before,
///           GATHER (ZeRO 3), per unit RECOMPUTE, BACKWARD_INPUT (not the embedding) and, unless the schedule splits
///           backward passes, BACKWARD_WEIGHT; SEND of the input's gradient
/// weight    BACKWARD_WEIGHT of each unit, last first, if the schedule splits backward passes
/// step      The list begins with a GATHER (micro −1) of each layer under ZeRO 1 and 2, and ends with NORM and each
///           unit's UPDATE. With updates_in_backward the backward of a layer with gradients ends with the layer's UPDATEs.
/// Gathers   A ZeRO 3 GATHER serves one pass on one layer, whose last instruction frees its buffer. In a split backward that is the
///           layer's last BACKWARD_INPUT; the embedding is not gathered for a split backward. Without stages a GATHER of a tied head's layer brings the table too.
/// Sums      follow a layer's last BACKWARD_WEIGHT of the last micro-batch; under ZeRO 2 and 3 with replicas, of every micro-batch. In order:
///           - on the compute, in tensor groups: REDUCEs over `tensor` and `keys`, of parameters that several ranks of the axis hold
///           - on the gradient link, over replicas: REDUCE (ZeRO 0) or SCATTER (ZeRO 1, 2, 3); with aggregate_values one REDUCE over `all` before NORM
///           - on the gradient link, last micro-batch only: REDUCE over `tables`, if the layer has a table copy
///           Without stages a tied table's REDUCE follows the embedding's last BACKWARD_WEIGHT in each group of micro-batches
///           (ZeRO 2, 3 with replicas: each BACKWARD_WEIGHT), before the MERGE. exec/executor.h says when the executor runs each sum.
/// Buffers   output(u): from FORWARD(u) or RECV to BACKWARD_WEIGHT(u+1), which reads output(u) as x.
///           saved(u): from FORWARD(u), or from RECOMPUTE(u) just before the backward, to BACKWARD_WEIGHT(u).
///           gradient(u): from BACKWARD_INPUT(u+1) or RECV to BACKWARD_WEIGHT(u).
///           left(u): from BACKWARD_INPUT(u) to BACKWARD_WEIGHT(u).
///           held: a layer's activations off the device, from STORE to LOAD. summand: from the layer's first BACKWARD_WEIGHT (the head's
///           layer: from the head's FORWARD), zero at first, to the JOIN of its SCATTER or the layer's last UPDATE.
///           The head's FORWARD has no output: it computes the loss and saves the gradient of the head's normed input.
/// Joins     A JOIN waits for a SEND, a STORE or a micro-batch's SCATTER, and frees what that transfer read. The list joins
///           - before a stage's forward: the device's SENDs of outputs, except the newest
///           - before a stage's backward: the device's SENDs of gradients, except the newest
///           - before a layer's FORWARDs: STOREs, except the newest
///           - before a LOAD: all STOREs
///           - before a `summand` begins: all SCATTERs
///           - before NORM: all transfers
///           - before a pass of a layer: all SCATTERs, if they hold more gradients than make_room (lower.cpp) allows
/// Groups    After u's last BACKWARD_WEIGHT in a group of micro-batches: MERGE, if leaf_step (spec/sum_order.h) adds or keeps sums.
/// Order     A unit's weight gradients are added in the order of micro-batches, so every schedule gives the same bits.
/// Sizes     a unit: unit_cost_in_mesh of Placement::query; a SEND: the unit's output; a collective: the whole tensor.
/// Costs     of a pass: unit_cost_in_mesh. Of NORM and UPDATE, and their messages: program/update_instructions.cpp. An UPDATE
///           within the backward also counts its unit's NORM; the NORM then counts nothing. The REDUCE of a tied table counts 1 flop
///           and 4 words per element, a MERGE 1 flop and 3 words per sum added and 3 words to keep a sum; a word is 4 bytes (f64: 8).
/// Errors    usage: the schedule's order follows the stages' times, which the plan does not have.
///           TERN_CHECK: a stage without layers, fewer than two units, no such device, contradictions in the placement.
Program lower(const ModelSpec&, const Placement&, int rank);

/// The lists of all devices in one Program, for the validator and the simulator: device after device.
Program lower(const ModelSpec&, const Placement&);

/// The list of one device of a plan. Errors: as placement_of's and lower's.
Program lower(const ModelSpec&, const Plan&, int rank, PlacementOptions = {});

/// The list of the forward alone on one device, for evaluation. It keeps nothing for a backward: the next unit's FORWARD frees
/// each output. The list ends with the loss. No buffer is resident.
Program lower_forward(const ModelSpec&, const Placement&);

}  // namespace tern
