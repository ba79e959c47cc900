#pragma once
// The generators behind pipeline_order, one for each schedule; callers use program/pipeline.h.

#include "program/pipeline.h"

namespace tern {

/// How many micro-batches stage i of P may hold under a zero-bubble schedule: `in_flight` between forward and backward,
/// `total` between forward and weight gradient. H1: P − i and P; H2: 2(P − i) − 1 and 2P − 1. A micro-batch holds M_B
/// bytes from its forward to its backward, then M_W ≤ M_B bytes until its weight gradient; so the stage's peak is at most
/// in_flight·M_B + (total − in_flight)·M_W.
struct ZeroBubbleCaps {
  int in_flight, total;
};
ZeroBubbleCaps zero_bubble_caps(PipelineSchedule, int num_stages, int stage);

/// Append the next operation of a device.
inline void add_forward(std::vector<PipelineOp>& ops, int stage, int micro) {
  ops.push_back({Phase::forward, stage, micro});
}
inline void add_backward(std::vector<PipelineOp>& ops, int stage, int micro) {
  ops.push_back({Phase::backward, stage, micro});
}

/// One function VALUE_order for each row of the table, in program/VALUE.cpp or its family's file. It returns the order of operations
/// on each device. It may read the times only if its row says so. The shape must be legal.
#define TERN_PIPELINE_SCHEDULE(value, ...) PipelineOrder value##_order(const PipelineShape&, const PipelineTimes&);
#include "spec/pipeline_schedules.def"
#undef TERN_PIPELINE_SCHEDULE

}  // namespace tern
