#pragma once
// Lowering: from an assignment of layers to stages and strategies to a Program for many ranks, at the grain of units
// (the Instance's layers). A rank stands for the devices of one stage: they all do the same.

#include "program/program.h"
#include "program/stage_model.h"

namespace tern {

/// The Program of one step, rank by rank in order of issue.
///
/// Operation of a stage (FORWARD of micro-batch m at stage s, …): its instructions follow one another on the compute
/// clock, LOAD and STORE run beside them on the host link; both begin when the operation before has ended and the input
/// is there, and the operation ends with the later of them.
///   forward   GATHER of the first unit where nothing hides it; FORWARD of each unit, RESHARD between two
///   backward  GATHER of the last unit where nothing hides it; per unit from the last: RECOMPUTE, BACKWARD_INPUT and,
///             where the schedule does not split them, BACKWARD_WEIGHT; RESHARD between two
///   weight    BACKWARD_WEIGHT of each unit from the last
///   step      GATHER with micro −1 before all; SCATTER on the gradient link after a unit's last BACKWARD_WEIGHT;
///   UPDATE
/// Transfers SEND when the operation has ended; RECV ends with it; their buffers have 0 bytes, since a stage's `held`
///           counts its input.
/// Memory    device: `held` of the whole stage from the start of its forward to the end of its backward. Where the
///           schedule splits the backward, what it holds passes into what the weight gradient needs: `kept` (the
///           smaller of the two) all along, the rest of `held` until the backward ends, or what is more (`left`) from
///           where it begins. Units bring their transient bytes as temporaries. Host and disk: `held` of a unit from
///           its STORE to the end of its LOAD beside the backward. Persistent bytes: resident.
/// Then      simulate_ranks' makespan = run_pipeline's to the picosecond, and its peaks = persistent + pipeline_peaks,
///           to the byte. Two cases where unit by unit is faster than the stages' formula: a host link that ends after
///           the compute, and several chunks per device, let the gradient link work off more.
/// Errors    as stage_times' and pipeline_order's.
Program lower(const Instance&, const Assignment&);

}  // namespace tern
