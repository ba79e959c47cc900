#pragma once
// The one lowering: from a placement to instruction lists, unit by unit, with the buffers that the executor will hold.
// The parameter `rank` is a device of the pipeline (RankPlace::device). All ranks of the run at a device have the
// device's list. In the comments on groups, sums and messages, ranks are ranks of the run (RankPlace::rank).

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
///           unit's UPDATE. With updates_in_backward the UPDATEs of a layer with gradients end the layer's backward.
/// Gathers   A buffer that a GATHER of ZeRO 3 fills ends with the pass's last instruction on the layer (if the schedule
///           splits: BACKWARD_INPUT). Without stages a GATHER of a tied head's layer also brings the embedding's table.
/// Sums      In the last micro-batch (ZeRO 2, 3 over replicas: in each) after a layer's last BACKWARD_WEIGHT, in order:
///           - on the compute, in tensor groups: REDUCEs over `tensor`, `keys` of parameters that ranks hold alike
///           - on the gradient link, over replicas: REDUCE (ZeRO 0) or SCATTER (ZeRO 1, 2, 3)
///           - on the gradient link, last micro-batch only: REDUCE over `tables`, if the layer has a table copy
///           Without stages a tied table's REDUCE follows the embedding's BACKWARD_WEIGHT of a group's last micro-batch
///           (ZeRO 2, 3: of each micro-batch), before the MERGE. exec/executor.h says when a sum really runs.
/// Buffers   output(u): from FORWARD(u) or RECV to BACKWARD_WEIGHT(u+1), which reads output(u) as x.
///           saved(u): from FORWARD(u), or from RECOMPUTE(u) just before the backward, to BACKWARD_WEIGHT(u).
///           gradient(u): from BACKWARD_INPUT(u+1) or RECV to BACKWARD_WEIGHT(u).
///           left(u): from BACKWARD_INPUT(u) to BACKWARD_WEIGHT(u).
///           held: a layer's activations off the device, from STORE to LOAD. summand: begins as zeros at the layer's
///           first BACKWARD_WEIGHT (with the head: at its FORWARD), ends with the SCATTER's JOIN or the last UPDATE.
///           The head's FORWARD makes no output: it ends in the loss and saves the gradient of the head's normed input.
/// Joins     A JOIN waits for a SEND, a STORE or a micro-batch's SCATTER, and frees what that transfer read. Joined are
///           - before a stage's forward: the device's SENDs of outputs, except the newest
///           - before a stage's backward: the device's SENDs of gradients, except the newest
///           - before a layer's FORWARDs: STOREs, except the newest; before a LOAD: all STOREs
///           - before a `summand` begins: all SCATTERs; before NORM: all transfers
///           - before the head's passes: all SCATTERs
///           - before another layer's passes: all SCATTERs, if they sum more bytes than the layer's own SCATTERs do. In
///             forwards of the head's stage those of the head count as the layer's own, too. Exception: while the oldest SCATTER under way
///             belongs to the head and this micro-batch, passes join nothing; the next `summand` that begins joins all
/// Groups    After u's last BACKWARD_WEIGHT in a group of micro-batches: MERGE, if leaf_step (sum_order.h) adds or keeps sums.
/// Order     Weight gradients of a unit are added in micro-batch order, whatever the schedule: same bits.
/// Sizes     a unit: unit_cost_in_mesh of Placement::query; a SEND: the unit's output; a collective: the whole tensor.
/// Costs     per element, in words of 4 bytes (f64: 8): REDUCE of a tied table 1 flop, 4 words; NORM 2 flops, 1 word;
///           MERGE 1 flop and 3 words per sum added, 3 words to keep a sum. UPDATE: update_cost, from ZeRO 1 on divided
///           by the replicas. An UPDATE within the backward also counts the unit's NORM cost, and NORM counts nothing.
/// Messages  between ranks, in bytes; none in a run of one rank. NORM: 8 (whether a rank refuses), and besides:
///           - tensor groups: 8 per rank of the run
///           - else pipeline or expert groups: 8·(1 + s) per block of kUpdateBlock trained numbers; s: sums over the model
///           - else: 8·(1 + s) per such block that is shared out
///           UPDATE of a shared-out unit: 8·(the rule's sums over a parameter) per block.
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
