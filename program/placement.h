#pragma once
// What the lowering reads: where each layer of a model lies, how it is kept, and how large the micro-batches are. A Plan
// fills it, and so do the settings of a run on one device.

#include <functional>
#include <span>
#include <vector>

#include "plan/layers.h"
#include "plan/plan_file.h"
#include "plan/strategy.h"
#include "program/pipeline.h"
#include "spec/model_spec.h"
#include "spec/unit_cost.h"
#include "spec/update_rule.h"

namespace tern {

struct PlacedLayer {
  Layer layer;
  int stage = 0;  // virtual
  LayerStrategy strategy;
};

struct Placement {
  TrainJob job;  // types and sizes
  UpdateConfig update;
  Mesh mesh;  // of each stage
  PipelineShape shape;
  std::vector<PlacedLayer> layers;                      // of the whole model, in order
  std::function<CostQuery(int unit, int micro)> query;  // sizes of a unit's work on one rank
  int groups = 1;       // of a rank's micro-batches (spec/sum_order.h); more than one: of one stage
  PipelineOrder order;  // empty: pipeline_order's; to be given where the schedule's order follows the times
};

/// All units on one device. Each layer (layers_of) has a mode of recomputation of its own.
/// Shapes  recompute: a mode per layer, or one for all. Errors: TERN_CHECK: another number of modes.
Placement on_one_device(const ModelSpec&, const TrainJob&, const UpdateConfig&, std::span<const Recompute> recompute,
                        int num_micro, std::function<CostQuery(int unit, int micro)>);

/// A plan's placement. `scratch`: of the multiplier that will run it (model/'s scratch_bytes); none: kernels without.
/// Every window is taken to be full, one sequence to each, whatever the job's lengths.
/// Errors  usage: the plan is of another model: other layers, another number of parameters.
Placement placement_of(const ModelSpec&, const Plan&, ScratchBytes scratch = {});

}  // namespace tern
