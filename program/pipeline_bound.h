#pragma once
// Lower bounds on run_pipeline's makespan: the longest of a few families of paths through the order of operations, each
// in closed form. Proofs: docs/planner-proofs.md.

#include "program/pipeline.h"

namespace tern {

/// A lower bound of the makespan of run_pipeline(shape, pipeline_order(shape, t), t) for every t whose elements are all
/// at least those of `times`; so `times` may hold lower bounds of what is not decided yet.
///
/// For GPipe without begin and tail it is the makespan. For 1F1B and its deep form it counts leads in and out, a
/// stage's or a link's whole work, and the cycles that a limited number of micro-batches in flight forces on
/// neighbouring stages; it is the makespan in most cases (figures in the README). For others it counts the busiest
/// device with its lead-in and lead-out.
/// Units   ps. Time: O(P²) for P stages, whatever the number of micro-batches.
/// Source  ours.
int64_t pipeline_lower_bound(const PipelineShape&, const PipelineTimes&);

/// The most micro-batches that a stage of 1F1B, its deep form, GPipe or zero bubble has in flight: between a forward's
/// start and its backward's end. Only for one chunk per device.
int max_in_flight(const PipelineShape&, int stage);

}  // namespace tern
