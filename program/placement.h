#pragma once
// Placement: where each layer of a model lies, how the layer's parameters are kept, and how large the micro-batches
// are. placement_of makes a Placement from a Plan; `lower` reads a Placement.

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "plan/layers.h"
#include "plan/plan.h"
#include "plan/strategy.h"
#include "plan/train_job.h"
#include "program/pipeline.h"
#include "spec/model_spec.h"
#include "spec/recompute.h"
#include "spec/unit_cost.h"
#include "spec/update_rule.h"

namespace tern {

/// A layer and where it lies.
struct PlacedLayer {
  Layer layer;
  int stage = 0;  // virtual
  LayerStrategy strategy;
};

/// What `lower` reads.
struct Placement {
  TrainJob job;  // types and sizes
  UpdateConfig update;
  Mesh mesh;  // of each stage
  PipelineShape shape;
  std::vector<PlacedLayer> layers;  // of the whole model, in order
  // Sizes of a unit's work on one rank of the run. Micro-batches differ in tokens and attended pairs alone.
  std::function<CostQuery(int unit, int micro)> query;
  int groups = 1;  // in which a data share's micro-batches are summed (spec/sum_order.h); > 1: only without stages
  // If set, gradients of the ranks of the run are not summed layer by layer but aggregated as one vector before NORM
  // (update/robust.h). Besides the vector each rank of the run sends this many doubles to every other rank. Only without stages.
  std::optional<int64_t> aggregate_values = {};
  // If set, the UPDATEs of each layer with gradients run right after the layer's backward, and the gradients exist only from the backward
  // until then. This needs a run of one rank, one micro-batch, and UPDATEs that do not depend on each other: no
  // clipping, no rule that sums over the model.
  bool updates_in_backward = false;
  // If empty, `lower` uses pipeline_order. A schedule whose order follows the stages' times needs `order`, made from those times.
  PipelineOrder order;
};

/// What a plan does not say, given by the caller that runs the plan.
struct PlacementOptions {
  ScratchBytes scratch = {};                // of matrix products (scratch_bytes of model/linear.h); empty: kernels that
                                            // need none
  std::optional<UpdateConfig> update = {};  // the update rule's options; absent: their defaults
};

/// The placement of a plan. Every Placement comes from this function; a caller that has no plan makes a plan
/// by plan_on_one_device. Each window counts as one full sequence, whatever the job's lengths. The last micro-batch has the
/// rest of the batch.
/// If the schedule's order follows the stages' times, `order` is made from the plan's times.
/// Errors  usage: the plan is for another model: its number of layers or of parameters differs.
Placement placement_of(const ModelSpec&, const Plan&, PlacementOptions = {});

/// A plan without times: all layers on one device, the job's batch in micro-batches of `micro_batch` sequences (the last
/// has the rest). recompute: one mode per layer (layers_of), or one for all layers. Errors: TERN_CHECK: another number of
/// modes.
Plan plan_on_one_device(const ModelSpec&, const TrainJob&, std::span<const Recompute> recompute, int64_t micro_batch);

/// The stages' times of a plan. Errors: TERN_CHECK: the plan does not have them.
PipelineTimes times_of(const Plan&);

}  // namespace tern
