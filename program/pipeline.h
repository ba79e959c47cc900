#pragma once
// Pipelines at the grain of stages: the order of operations on each device, and their times on a virtual clock with
// contended links. The search's objective is run_pipeline's makespan; the lowering (program/lower.h) turns the same order into
// instructions.
//
// Stage time  of virtual stage s: forward f, backward b (with the recomputation before it), weight gradient w; where a
//             schedule does not split the backward, one operation takes b + w.
// Links       one serial resource from a device to another, each way its own; a transfer starts when the operation
//             that makes it has ended and the link is free, in the order of the sender's operations, and holds up
//             neither device. Chunks that meet between the same two devices share their link. Neighbouring virtual
//             stages on one device (the turn of a V) have none, and their transfer takes no time.
// Step        begin[d] before the device's first operation; tail[d] after its last: what is left of gradient
//             synchronisation, then the update. Makespan: the last device's end.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "plan/instance.h"

namespace tern {

enum class Phase : uint8_t { forward, backward, weight };

struct PipelineOp {
  Phase phase = Phase::forward;
  int stage = 0, micro = 0;  // virtual stage
  friend bool operator==(const PipelineOp&, const PipelineOp&) = default;
};
using PipelineOrder = std::vector<std::vector<PipelineOp>>;  // per device, in order of issue

struct PipelineShape {
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  int num_devices = 1, chunks_per_device = 1, num_micro = 1;
  int num_stages() const { return num_devices * chunks_per_device; }
};

/// ps. Shapes: forward, backward, weight (virtual stages); send_forward, send_backward (virtual stages − 1): element s
/// from stage s to s + 1, and back; begin, tail (devices).
struct PipelineTimes {
  std::vector<int64_t> forward, backward, weight;
  std::vector<int64_t> send_forward, send_backward;
  std::vector<int64_t> begin, tail;
};

/// Device of a virtual stage: round robin for interleaved, there and back for the V shapes, itself otherwise.
int device_of(const PipelineShape&, int stage);

/// The order of operations. Zero-bubble orders (H1, H2) depend on the times; the others ignore them. A stage's weight
/// gradients come in order of micro-batches, whatever the schedule: same bits.
/// Errors: usage, for a shape the schedule has no order for (interleaved wants num_micro a multiple of num_devices; the
/// V shapes two chunks), naming the rule.
/// Source  GPipe; 1F1B and interleaved: Narayanan et al. 2021, arXiv:2104.04473; zero bubble: Qi et al. 2024,
/// arXiv:2401.10241; V-Half: Qi et al. 2024, arXiv:2405.15362 (recalled).
PipelineOrder pipeline_order(const PipelineShape&, const PipelineTimes&);

struct PipelineRun {
  int64_t makespan = 0;                   // ps
  std::vector<int64_t> begin, end, busy;  // per device, ps; bubble = end − begin − busy (without begin and tail)
};

/// Errors: TERN_CHECK on a deadlock or an order that misses an operation or has one twice, or on another device.
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
struct PipelineScratch {
  std::vector<int64_t> cost, send;
  std::vector<int64_t> state;     // clocks of the devices, then of the links, then arrivals
  std::vector<int64_t> snapshot;  // of an earlier round
  int64_t skipped = 0;            // operations of the last run that were not walked one by one
};
/// Errors: as run_pipeline's.
PreparedPipeline prepare_pipeline(const PipelineShape&, const PipelineOrder&);
/// The same times as the other run_pipeline, to the bit; once scratch and result have been used for this shape, nothing
/// is allocated. O(number of operations) at most.
void run_pipeline(const PreparedPipeline&, const PipelineTimes&, PipelineScratch&, PipelineRun&);

/// Device bytes at the peak of an order: max over time of Σ held·(micro-batches between forward and backward) +
/// Σ held_weight·(between backward and weight gradient) + transient of the running stage; persistent left out. A
/// forward holds from its start; a backward lets go of `held` at its end and, where the schedule splits it, turns it
/// into `held_weight`; the weight gradient lets go of that at its end. So an operation counts the larger of what is
/// held before and after it. Shapes  held, held_weight, transient (virtual stages), result (devices).
std::vector<int64_t> pipeline_peaks(const PipelineShape&, const PipelineOrder&, std::span<const int64_t> held,
                                    std::span<const int64_t> held_weight, std::span<const int64_t> transient);
/// The same peaks in their two parts, at the first operation that reaches each.
struct PipelinePeak {
  int64_t held = 0, transient = 0;
};
std::vector<PipelinePeak> pipeline_peak_moments(const PipelineShape&, const PipelineOrder&,
                                                std::span<const int64_t> held, std::span<const int64_t> held_weight,
                                                std::span<const int64_t> transient);

}  // namespace tern
