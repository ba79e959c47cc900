#pragma once
// When each operation of a pipeline runs, for pictures and explanations.

#include <vector>

#include "program/pipeline.h"

namespace tern {

struct TimedOp {
  PipelineOp op;
  int64_t begin = 0, end = 0;  // ps
};
/// Per device in order of issue; the times are run_pipeline's. O(operations), all of them kept.
std::vector<std::vector<TimedOp>> pipeline_timeline(const PipelineShape&, const PipelineTimes&);

}  // namespace tern
