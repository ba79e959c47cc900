#pragma once
// Pipelines at the grain of stages: the order of operations on each device. The lowering (program/lower.h) turns this order
// into instructions; program/pipeline_run.h computes its times.
//
// Stage time  of virtual stage s: forward f, backward b (with the recomputation before it), weight gradient w. If a
//             schedule does not split the backward, one operation computes both gradients and takes b + w.

#include <cstdint>
#include <vector>

#include "plan/instance.h"

namespace tern {

enum class Phase : uint8_t { forward, backward, weight };  // weight: the weight gradient

struct PipelineOp {  // an operation of a stage on a micro-batch
  Phase phase = Phase::forward;
  int stage = 0, micro = 0;  // stage: a virtual stage
  friend bool operator==(const PipelineOp&, const PipelineOp&) = default;
};
using PipelineOrder = std::vector<std::vector<PipelineOp>>;  // per device, in order of issue

struct PipelineShape {  // a schedule and its sizes
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  int num_devices = 1, chunks_per_device = 1, num_micro = 1;
  int num_virtual_stages() const { return num_devices * chunks_per_device; }
};

/// Times, ps. Shapes: forward, backward, weight (virtual stages); send_forward, send_backward (virtual stages − 1), where
/// element s is the transfer from stage s to s + 1, or from s + 1 back to s; begin, tail (devices).
struct PipelineTimes {
  std::vector<int64_t> forward, backward, weight;
  std::vector<int64_t> send_forward, send_backward;
  std::vector<int64_t> begin, tail;
};

/// The device of a virtual stage. Interleaved: stage mod num_devices. V shapes: from the first device to the last, then back. Others: stage.
int device_of(const PipelineShape&, int stage);

/// The schedule's order of operations. The orders of zero bubble H1 and H2 depend on the times; the other orders do not. A stage's
/// weight gradients come in the order of micro-batches, so every schedule gives the same bits.
/// Errors: usage, naming the rule, if the schedule has no order for the shape: interleaved needs num_micro to be a multiple of
/// num_devices, a V shape two chunks per device.
/// Source  GPipe; 1F1B and interleaved: Narayanan et al. 2021, arXiv:2104.04473; zero bubble: Qi et al. 2024,
/// arXiv:2401.10241; V-Half: Qi et al. 2024, arXiv:2405.15362 (recalled).
PipelineOrder pipeline_order(const PipelineShape&, const PipelineTimes&);

}  // namespace tern
