#pragma once
// The stage model: the step of an assignment at the grain of stages, as the search minimizes it. The one formula of
// stage times; the search, its baselines, tables of measured runs and the tests of Programs all ask here.
//
// Virtual stage s holds layers [a, e) under their strategies:
//   forward   max(Σ forward + Σ within.forward + entry_forward of a, Σ host_forward)
//   operation backward, and weight gradient where the schedule does not split them:
//             max(Σ (backward + recompute + weight) + Σ within.backward + entry_backward of e − 1, Σ host_backward);
//             where it splits them, the same without weight, and Σ weight an operation of its own
//   sends     across.forward and across.backward of the edge (e − 1, e)
//   begin     Σ begin over the device's stages
//   tail      what the gradient link has left to do after the last operation, then Σ update. A walk over the device's
//             layers from the last virtual stage's last layer back, the order of their last weight gradients, gives it:
//             backlog = max(backlog − t_u, 0) + sync_u, from 0 on, where t_u is the time of u's last gradient operation
//             (recompute + backward + weight, with the resharding to u + 1; weight alone where the schedule splits)
//   bytes     per device and tier: Σ persistent + the order's peak of Σ held·micro-batches (and, on the device tier,
//             Σ held_weight·micro-batches + the largest transient of the running stage's layers: pipeline_peaks)

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
/// The layers of each virtual stage. Errors: usage, for an assignment that is not of the instance: sizes, an empty or
/// skipped stage, an unknown strategy.
std::vector<StageRange> stage_ranges(const Instance&, const Assignment&);

/// Adds up layers' times to those of their stages. Order: every virtual stage from the last to the first, and in each
/// its layers from the last to the first.
class StageTimes {
 public:
  explicit StageTimes(const PipelineShape&);
  /// `within`: the edge to the next layer, if that lies in the same stage; `first`, `last`: of its stage.
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
/// What the order's peak in a tier is made of, on each device: peak_bytes = persistent + held + transient.
std::vector<PipelinePeak> peak_moments(const PipelineShape&, const PipelineOrder&, const AssignmentBytes&, Tier);

}  // namespace tern
