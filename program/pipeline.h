#pragma once
// Pipelines at the grain of stages: the order of operations on each device. The lowering (program/lower.h) turns it into
// instructions, program/pipeline_run.h times it.
//
// Stage time  of virtual stage s: forward f, backward b (with the recomputation before it), weight gradient w; where a
//             schedule does not split the backward, one operation takes b + w.

#include <cstdint>
#include <vector>

#include "plan/instance.h"

namespace tern {

enum class Phase : uint8_t { forward, backward, weight };  // weight: the weight gradient

struct PipelineOp {  // an operation of a stage on a micro-batch
  Phase phase = Phase::forward;
  int stage = 0, micro = 0;  // virtual stage
  friend bool operator==(const PipelineOp&, const PipelineOp&) = default;
};
using PipelineOrder = std::vector<std::vector<PipelineOp>>;  // per device, in order of issue

struct PipelineShape {  // a schedule and its sizes
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  int num_devices = 1, chunks_per_device = 1, num_micro = 1;
  int num_virtual_stages() const { return num_devices * chunks_per_device; }
};

/// Times, ps. Shapes: forward, backward, weight (virtual stages); send_forward, send_backward (virtual stages − 1), where
/// element s is from stage s to s + 1, and back; begin, tail (devices).
struct PipelineTimes {
  std::vector<int64_t> forward, backward, weight;
  std::vector<int64_t> send_forward, send_backward;
  std::vector<int64_t> begin, tail;
};

/// The device of a virtual stage. Interleaved: the devices in turn; V shapes: there and back; otherwise the device of the same number.
int device_of(const PipelineShape&, int stage);

/// The schedule's order of operations. Zero-bubble orders (H1, H2) depend on the times; the others ignore them. A stage's weight
/// gradients come in order of micro-batches, whatever the schedule: same bits.
/// Errors: usage, for a shape the schedule has no order for (interleaved wants num_micro a multiple of num_devices; the
/// V shapes two chunks), naming the rule.
/// Source  GPipe; 1F1B and interleaved: Narayanan et al. 2021, arXiv:2104.04473; zero bubble: Qi et al. 2024,
/// arXiv:2401.10241; V-Half: Qi et al. 2024, arXiv:2405.15362 (recalled).
PipelineOrder pipeline_order(const PipelineShape&, const PipelineTimes&);

}  // namespace tern
