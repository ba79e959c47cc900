#pragma once
// Cuts: linear lower bounds on a pipeline's makespan, for a search that decides stage times.

#include "program/pipeline.h"
#include "program/pipeline_run.h"

namespace tern {

/// How often a critical path passes each operation and transfer. The path exists whatever the times are: so for any
/// times t the makespan of the same order is at least value(cut, t), and equal to it for the times by which the cut was
/// made. A search may minimize the cut, a sum over stages, in the place of the makespan. The largest of several cuts,
/// and any average of them, are bounds too.
/// Shapes  as PipelineTimes.
struct PipelineCut {
  std::vector<int64_t> forward, backward, weight, send_forward, send_backward, begin, tail;
};

/// The cut of a critical path at these times. It holds for all times if the schedule's order ignores them; for zero
/// bubble H1 and H2 it holds for the given order.
/// Units   passes. Time and memory: O(number of operations).
/// Source  ours. It is Benders' decomposition with the simulator in the place of the second-stage program.
PipelineCut pipeline_cut(const PreparedPipeline&, const PipelineTimes&);

/// The value of the cut at these times: Σ passes · time, ps.
int64_t value(const PipelineCut&, const PipelineTimes&);

}  // namespace tern
