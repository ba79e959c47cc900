#pragma once
// What a plan chooses: the outer choice of a run (mesh, pipeline, micro-batch) and the strategy of each layer. Values
// only.

#include <cstdint>
#include <string>

#include "plan/instance.h"
#include "spec/mesh.h"
#include "spec/recompute.h"
#include "spec/unit_cost.h"

namespace tern {

/// How a layer is kept. zero: what replicas shard: 0 nothing; 1 optimizer states; 2 also gradients, which are then
/// reduced with each micro-batch; 3 also parameters, which are then gathered for each pass.
struct LayerStrategy {
  int zero = 0;
  Recompute recompute = Recompute::none;
  Tier states = Tier::device;       // where optimizer states live and the update runs
  Tier activations = Tier::device;  // where activations wait for the backward
  friend bool operator==(const LayerStrategy&, const LayerStrategy&) = default;
};

/// θ: the part of a plan that is fixed before layers are placed.
struct OuterChoice {
  Mesh mesh;
  int num_stages = 1, chunks_per_stage = 1;
  PipelineSchedule schedule = kOneStageSchedule;
  int64_t micro_batch = 1;  // windows of a micro-batch, per data share
  int64_t num_micro = 1;
  int64_t devices() const { return mesh.devices() * num_stages; }
  friend bool operator==(const OuterChoice&, const OuterChoice&) = default;
};

/// "zero 1, recompute attention, states on host".
std::string to_string(const LayerStrategy&);
/// "tp 8, cp 2 (ring), dp 64, pp 16 × 2 interleaved, micro-batch 1 × 128".
std::string to_string(const OuterChoice&);

}  // namespace tern
