#pragma once
// The times of a pipeline's order on a virtual clock with contended links. The search's objective is run_pipeline's
// makespan.
//
// Links       one serial resource from a device to another, each way its own; a transfer starts when the operation
//             that makes it has ended and the link is free, in the order of the sender's operations, and holds up
//             neither device. Transfers of all chunks from one device to another share one link. Neighbouring virtual
//             stages on one device (the turn of a V) have none, and their transfer takes no time.
// Step        begin[d] before the device's first operation; tail[d] after its last: what is left of gradient
//             synchronisation, then the update. Makespan: when the last device's tail is over.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "program/pipeline.h"

namespace tern {

/// The times of a run.
struct PipelineRun {
  int64_t makespan = 0;  // ps
  std::vector<int64_t> begin, end,
      busy;  // per device, ps: the first operation's start, the last one's end; bubble = end − begin − busy
};

/// Runs an order. Errors: TERN_CHECK on a deadlock or an order that misses an operation or has one twice, or on another
/// device.
PipelineRun run_pipeline(const PipelineShape&, const PipelineOrder&, const PipelineTimes&);

/// An order made ready for many runs: its operations in one order in which each comes after all that it waits for.
/// This order does not depend on the times, because every device and every link serves in a fixed order; so a run is
/// one pass with two maxima and two additions per operation.
///
/// Most of a long step is a number of equal rounds (one forward and one backward of every stage, say). A run stops
/// walking them once all clocks have moved by the same time since an earlier round: from there on every round is that
/// much later, exactly. So a long step costs little more than a short one, unless stages drift apart for ever (GPipe).
struct PreparedPipeline {
  struct Step {
    int32_t device, cost;  // cost: (phase, virtual stage) in PipelineScratch::cost
    int32_t wait, out;     // arrivals: the one it waits for, the one it makes
    int32_t link, send;    // the link it sends on, and the transfer's time in PipelineScratch::send
  };
  PipelineShape shape;
  std::vector<Step> steps;
  int num_links = 0, num_arrivals = 0;
  size_t first_round = 0, round_length = 0;  // steps
  int64_t rounds = 0;
  std::vector<int32_t> touched;  // what a round writes, in PipelineScratch::state
};
/// Memory of a run of a prepared pipeline, which runs use one after another.
struct PipelineScratch {
  std::vector<int64_t> cost, send;
  std::vector<int64_t> state;     // clocks of the devices, then of the links, then arrivals
  std::vector<int64_t> snapshot;  // of an earlier round
  int64_t skipped = 0;            // operations of the last run that were not walked one by one
};
/// Errors: as run_pipeline's.
PreparedPipeline prepare_pipeline(const PipelineShape&, const PipelineOrder&);
/// Gives the times of the other run_pipeline, to the bit; once scratch and result have been used for this shape,
/// nothing is allocated. O(number of operations) at most.
void run_pipeline(const PreparedPipeline&, const PipelineTimes&, PipelineScratch&, PipelineRun&);

}  // namespace tern
