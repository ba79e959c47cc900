#pragma once
// The stage model: a step's time and each device's bytes, from whole stages instead of single instructions. The search
// minimizes this time. The search, its baselines, tables of measured runs and tests of Programs all use these functions.
//
// Virtual stage s holds layers [a, e) under their strategies:
//   forward   max(Σ forward + Σ within.forward + entry_forward of a, Σ host_forward)
//   backward  max(Σ (backward + recompute) + Σ within.backward + entry_backward of e − 1, Σ host_backward − W).
//             W: 0 if the schedule splits backward passes, else Σ weight
//   weight    Σ weight, always. If the schedule does not split, one operation takes the time backward + weight
//   sends     forward and backward of the edge (e − 1, e): those of the class of the link to the next stage
//   begin     Σ begin over the device's stages
//   tail      backlog + Σ update over the device's stages. backlog: what the gradient link still has to do after the
//             last operation. The backlog starts at 0. For each layer u of the device, last layer first:
//             backlog = max(backlog − t_u, 0) + sync_u. t_u: the time of u's last gradient operation: weight if the
//             schedule splits, else recompute + backward + weight + within.backward of the edge (u, u + 1)
//   bytes     per device and tier: Σ persistent + the order's peak of Σ held·micro-batches. The device tier adds Σ
//             held_weight·micro-batches and the largest transient of the running stage's layers (pipeline_peaks)

#include <vector>

#include "program/pipeline.h"
#include "program/pipeline_peaks.h"

namespace tern {

/// The pipeline of an instance.
PipelineShape shape_of(const Instance&);

/// The layers of a stage: [begin, end).
struct StageRange {
  int begin = 0, end = 0;  // layers
};
/// The layers of each virtual stage. Errors: usage: the assignment does not belong to the instance: wrong sizes, an empty or
/// skipped stage, an unknown strategy.
std::vector<StageRange> stage_ranges(const Instance&, const Assignment&);

/// Adds up the times of layers to the times of their stages. Call order: every virtual stage from the last to the first, and in
/// each stage the layers from the last to the first.
class StageTimes {
 public:
  explicit StageTimes(const PipelineShape&);
  /// `within`: the edge to the next layer, if it lies in the same stage. `first`, `last`: whether the layer is the first, the last of its stage.
  void add(int stage, const CostVector&, const EdgeCost& within, bool first, bool last);
  /// To be called once, after all layers. The sends are left empty: only the caller knows the links.
  PipelineTimes finish();

 private:
  bool split_;
  std::vector<int> device_;  // of a stage
  PipelineTimes times_;
  std::vector<int64_t> host_forward_, host_backward_;  // of a stage
  std::vector<int64_t> update_;                        // of a device
};

/// The times of an assignment. Errors: as stage_ranges.
PipelineTimes stage_times(const Instance&, const Assignment&);

/// Bytes of an assignment's stages.
struct StageBytes {
  TierBytes held{};
  int64_t held_weight = 0, transient = 0;
};
/// Bytes of an assignment that do not depend on the order of operations.
struct AssignmentBytes {
  std::vector<TierBytes> persistent;  // per device
  std::vector<StageBytes> stages;
};
/// The bytes of an assignment. Errors: as stage_ranges.
AssignmentBytes stage_bytes(const Instance&, const Assignment&);
/// The peak of each device: its persistent bytes and those at the order's peak.
std::vector<TierBytes> peak_bytes(const PipelineShape&, const PipelineOrder&, const AssignmentBytes&);
/// The parts of each device's peak in a tier, at the order's peak: peak_bytes = persistent + held (held_weight in it) + transient.
std::vector<PipelinePeak> peak_moments(const PipelineShape&, const PipelineOrder&, const AssignmentBytes&, Tier);

}  // namespace tern
