#pragma once
// Which outer choices make sense for a model on a machine. One table of rules, each with a reason a user can read.

#include <cstdint>
#include <string>

#include "hardware/machine.h"
#include "plan/strategy.h"
#include "plan/train_job.h"
#include "spec/model_spec.h"

namespace tern {

/// The most operations that a plan's pipeline may have; the search does not plan longer ones, the audit and calibration refuse them.
inline constexpr int64_t kMostOperations = 4'000'000;
/// Operations of a pipeline at most: three per micro-batch and virtual stage.
inline int64_t operations_of(const OuterChoice& c) {
  return int64_t{3} * c.num_stages * c.chunks_per_stage * c.num_micro;
}

/// Counts the devices that stages of this mesh can use. A group of tensor × context ranks lies within one node, or
/// fills several whole nodes. Devices that are left over in a node stay idle.
int64_t usable_devices(const Machine&, const Mesh&);

/// "" if legal, else the rule broken: "tensor 3: does not divide 32 heads". Judges only the mesh and the
/// micro-batch.
std::string why_illegal(const ModelSpec&, const TrainJob&, const Machine&, const Mesh&, int64_t micro_batch);
/// The same for a pipeline of stages with a legal mesh: stages, schedule, chunks, devices. `num_layers`: the number of
/// layers_of the model.
std::string why_illegal_pipeline(const Machine&, const OuterChoice&, int num_layers);
/// "" if the schedule has an order of this shape, else the rule broken (on chunks per stage, or on micro-batches).
std::string why_illegal_schedule(PipelineSchedule, int64_t num_stages, int64_t chunks, int64_t num_micro);
/// "" if a layer may have this strategy on such a machine, else the rule broken. Sharding over a single replica is
/// legal and changes nothing.
std::string why_illegal(const Machine&, const LayerStrategy&);

}  // namespace tern
