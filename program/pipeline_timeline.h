#pragma once
// When each operation of a pipeline runs, for pictures and explanations.

#include <vector>

#include "program/pipeline.h"

namespace tern {

/// An operation and its time.
struct TimedOp {
  PipelineOp op;
  int64_t begin = 0, end = 0;  // ps
};
/// The operations of each device, in order of issue, with their times in run_pipeline. Time and memory O(operations).
std::vector<std::vector<TimedOp>> pipeline_timeline(const PipelineShape&, const PipelineTimes&);

}  // namespace tern
