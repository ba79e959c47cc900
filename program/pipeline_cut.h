#pragma once
// Cuts: linear lower bounds on a pipeline's makespan, for a search that decides stage times.

#include "program/pipeline.h"
#include "program/pipeline_run.h"

namespace tern {

/// How often one critical path of an order passes each operation and transfer. The order contains this path whatever the times
/// are. So for any times t the order's makespan is at least value(cut, t); for the times from which the cut was made the two are
/// equal. A search may minimize this value, which is a sum over stages, instead of the makespan. The largest value of several
/// cuts, and any average of their values, are lower bounds too.
/// Shapes  as PipelineTimes.
struct PipelineCut {
  std::vector<int64_t> forward, backward, weight, send_forward, send_backward, begin, tail;
};

/// The cut of a critical path at these times. It holds for all times if the schedule's order does not depend on them; for zero
/// bubble H1 and H2 it holds for the given order alone.
/// Units   passes. Time and memory: O(number of operations).
/// Source  ours. It is Benders' decomposition with the simulator instead of the second-stage program.
PipelineCut pipeline_cut(const PreparedPipeline&, const PipelineTimes&);

/// The value of the cut at these times: Σ passes · time, ps.
int64_t value(const PipelineCut&, const PipelineTimes&);

}  // namespace tern
