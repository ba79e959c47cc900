#pragma once
// Steps of a model's inference as a Program: what its weights, as they are planned or as they are loaded, and a batch say of the list, and
// the times that the rates of a machine give it.

#include <cstdint>
#include <span>
#include <vector>

#include "infer/kv_on_disk.h"
#include "infer/step_experts.h"
#include "infer/stream_plan.h"
#include "infer/stream_times.h"
#include "program/inference_program.h"

namespace tern {

/// What a model's weights say of the Program of its steps.
struct StepWeights {
  DType dtype = DType::f32;  // in which the model is computed
  std::vector<InferenceUnit> units;
  CyclicRing* ring = nullptr;  // of loaded weights that stream
  int slots = 0;               // of the ring; 0: nothing streams
  int64_t slot_bytes = 0;      // of one
  RingWindow window = {};      // of the ring; no blocks: of single extents
  int64_t weight_bytes = 0;    // of what stays; of loaded weights not known here: 0
  StepExperts experts;
};
/// As planned. The order of a pass is that of the plan's bands. A part without an extent stands behind each run of a matrix's bands that
/// stream; so products with bands that stay have a part in which no slot is held. Its products' workspace is that of planned bands: loading may
/// cut the bands of a matrix that stay into several products.
StepWeights step_weights(const ModelSpec&, DType, const StreamPlan&);
/// As loaded: the same parts, and the workspace of the products that loading made. The weights of a lender (model/weight_source.h) have no parts.
StepWeights step_weights(const ModelSpec&, WeightSource);

/// What a step's batch says of its list.
struct StepBatch {
  int64_t tokens = 0, logit_rows = 0;
  int64_t attended_pairs = 0;                   // of FLOPs alone, as if no layer had a window
  std::vector<int> layers_on_disk;              // whose keys and values lie there
  std::vector<KvMoved> moved;                   // by each of them; may be empty: not known, 0
  std::vector<std::vector<ExpertUse>> experts;  // InferenceStep::experts
};
/// The step of lower_inference. Adapters that run beside the model are not in it.
InferenceStep step_of(const ModelSpec&, const StepWeights&, const StepBatch&);
/// The layer whose keys a unit's attention reads; -1: none.
int kv_layer_of(const Unit&);

/// The Program of these steps. `pool`: says what pages and slots of keys are resident; null: as if there were no pages. `there`: the experts before the
/// first step.
Program step_program(const ModelSpec&, const StepWeights&, std::span<const StepBatch>, const KvPool* pool,
                     std::vector<ExpertMatrix> there = {});

/// The picoseconds of each instruction of a Program of step_weights(plan), as stream_times has them: a product's time is that of one row, whatever the
/// step's tokens; keys are read and written at the rate of the weights' disk; attention, norms and the like take no time. So have experts: a LOAD the time of its bytes,
/// its part the product's of one row.
std::vector<int64_t> step_times(const Program&, const ModelSpec&, const StreamPlan&, const StreamRates&);

}  // namespace tern
