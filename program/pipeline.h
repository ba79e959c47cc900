#pragma once
// Pipelines at the grain of stages: the order of operations on each device, and their times on a virtual clock with
// contended links. The search's objective is run_pipeline's makespan (methods: least simulated makespan), the
// generators lower the same order to instructions.
//
// Stage time  of virtual stage s: forward f, backward b (with the recomputation before it), weight gradient w; where a
//             schedule does not split the backward, one operation takes b + w.
// Links       between virtual stages s and s + 1, one serial resource each way; a transfer starts when the operation
//             ends, or the link is free, and holds up neither device. Virtual stages on one device have no link.
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
  Schedule schedule = Schedule::one_f_one_b;
  int num_devices = 1, chunks_per_device = 1, num_micro = 1;
  int num_stages() const { return num_devices * chunks_per_device; }
};

/// ps. Shapes: forward, backward, weight (virtual stages); send_forward, send_backward (virtual stages − 1); begin,
/// tail (devices).
struct PipelineTimes {
  std::vector<int64_t> forward, backward, weight;
  std::vector<int64_t> send_forward, send_backward;
  std::vector<int64_t> begin, tail;
};

/// Device of a virtual stage: round robin for interleaved, there and back for the V shapes, itself otherwise.
int device_of(const PipelineShape&, int stage);
/// Whether backward and weight gradient are operations of their own.
bool splits_backward(Schedule);
std::string_view name_of(Schedule);  // "gpipe", "1f1b", "1f1b-deep", "interleaved", "zb-h1", "zb-h2", "zb-v", "v-half"

/// The order of operations. Zero-bubble orders depend on the times; the others ignore them.
/// Errors: usage, for a shape the schedule has no order for (interleaved wants num_micro a multiple of num_devices; the
/// V shapes two chunks), naming the rule.
PipelineOrder pipeline_order(const PipelineShape&, const PipelineTimes&);

struct PipelineRun {
  int64_t makespan = 0;                   // ps
  std::vector<int64_t> begin, end, busy;  // per device, ps; bubble = end − begin − busy (without begin and tail)
};

/// Errors: TERN_CHECK on a deadlock or an order that misses an operation.
PipelineRun run_pipeline(const PipelineShape&, const PipelineOrder&, const PipelineTimes&);

/// The most micro-batches that virtual stage s holds between forward and backward, and between backward and weight
/// gradient, and the device bytes at the peak of an order: max over time of Σ held·micro-batches + transient of the
/// running stage; persistent left out.
/// Shapes  held, held_weight, transient (virtual stages), result (devices).
std::vector<int64_t> pipeline_peaks(const PipelineShape&, const PipelineOrder&, std::span<const int64_t> held,
                                    std::span<const int64_t> held_weight, std::span<const int64_t> transient);

}  // namespace tern
