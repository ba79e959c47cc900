#pragma once
// Lower bounds on run_pipeline's makespan: the longest of a few families of paths through the order of operations, each
// in closed form. Proofs: docs/planner-proofs.md.

#include "program/pipeline.h"

namespace tern {

/// A lower bound of the makespan of run_pipeline(shape, pipeline_order(shape, t), t) for every t whose elements are all
/// at least those of `times`. So `times` may hold lower bounds of times that are not decided yet.
///
/// The bound is the largest of: the work of a device or a link, plus the least times before and after it; for 1F1B and
/// deep 1F1B also cycles over neighbouring stages, caused by the limit on micro-batches in flight; for zero bubble H1, H2
/// also round trips to the last stage. The bound equals the makespan for GPipe if all begin and tail are 0, for 1F1B in
/// about half of the cases, for deep 1F1B in most (figures in the README).
/// Units   ps. Time: O(P²) for P stages, whatever the number of micro-batches.
/// Source  ours.
int64_t pipeline_lower_bound(const PipelineShape&, const PipelineTimes&);

/// The most micro-batches that a stage of GPipe, 1F1B, deep 1F1B or zero bubble H1, H2 has in flight: between the start
/// of a forward and the end of that micro-batch's backward. Only for one chunk per device.
int max_in_flight(const PipelineShape&, int stage);

}  // namespace tern
