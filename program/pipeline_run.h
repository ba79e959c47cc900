#pragma once
// The times of a pipeline's order on a virtual clock with contended links. The search's objective is run_pipeline's
// makespan.
//
// Links       A link leads from one device to another; the way back is a link of its own. It carries one transfer at a time, in
//             the order of the sender's operations. A transfer starts when the operation that produces it has ended and the link
//             is free. It holds up neither device. Transfers of all chunks from one device to another share one link. Between
//             neighbouring virtual stages on one device (the turn of a V) there is no link, and the transfer takes no time.
// Step        Device d begins its first operation at begin[d] or later. After its last operation it takes tail[d]: the rest of
//             gradient synchronisation, then the update. The makespan is the time when the last tail ends.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "program/pipeline.h"

namespace tern {

/// The times of a run.
struct PipelineRun {
  int64_t makespan = 0;  // ps
  std::vector<int64_t> begin, end,
      busy;  // per device, ps: start of the first operation, end of the last, time in operations; bubble = end − begin − busy
};

/// Runs an order. Errors: TERN_CHECK on a deadlock, or an operation that is missing, stands twice or is on the wrong
/// device.
PipelineRun run_pipeline(const PipelineShape&, const PipelineOrder&, const PipelineTimes&);

/// An order prepared for many runs: its operations sorted so that each comes after all operations that it waits for.
/// The sorting does not depend on the times, because every device and every link works in a fixed order. So a run is
/// one pass over the operations, with two maxima and two additions for each.
///
/// Most of a long step consists of equal rounds (one forward and one backward of every stage, for example). A run computes
/// rounds until all clocks have advanced by the same time since an earlier round. Later rounds would only repeat the same, exactly
/// that much later, so they are skipped. So a long step costs little more than a short one, unless stages drift apart for ever (GPipe).
struct PreparedPipeline {
  struct Step {
    int32_t device, cost;  // cost: index of (phase, virtual stage) in PipelineScratch::cost
    int32_t wait, out;     // indices of arrivals: the one it waits for, the one it makes
    int32_t link, send;    // the link it sends on; the index of the transfer's time in PipelineScratch::send
  };
  PipelineShape shape;
  std::vector<Step> steps;
  int num_links = 0, num_arrivals = 0;
  size_t first_round = 0, round_length = 0;  // steps
  int64_t rounds = 0;
  std::vector<int32_t> touched;  // indices in PipelineScratch::state of what a round writes
};
/// Working memory for runs of a prepared pipeline, one run after another.
struct PipelineScratch {
  std::vector<int64_t> cost, send;
  std::vector<int64_t> state;     // clocks of the devices, then of the links, then arrivals
  std::vector<int64_t> snapshot;  // the touched parts of `state` at an earlier round
  int64_t skipped = 0;            // operations of the last run that were not walked one by one
};
/// Errors: as run_pipeline's.
PreparedPipeline prepare_pipeline(const PipelineShape&, const PipelineOrder&);
/// Gives the same times as the other run_pipeline, to the bit. If scratch and result were used for this shape before, it
/// allocates nothing. O(number of operations) at most.
void run_pipeline(const PreparedPipeline&, const PipelineTimes&, PipelineScratch&, PipelineRun&);

}  // namespace tern
