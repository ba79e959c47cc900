#pragma once
// Experts in the Program of steps: which matrices a step uses and reads. Known once the router has chosen; before that it is an expectation.

#include <cstdint>
#include <span>
#include <vector>

#include "infer/stream_plan.h"
#include "program/inference_program.h"
#include "store/extent_cache.h"

namespace tern {

/// The experts of a model that are read as its router chooses them, by the numbers of a cache's items.
struct StepExperts {
  ExtentCache* cache = nullptr;     // of loaded weights
  std::vector<ExpertMatrix> items;  // empty: no experts are read
  std::vector<int64_t> item_bytes;  // that the disk reads for each
  std::vector<int64_t> slot_bytes;  // of each slot
};
StepExperts step_experts(const StreamPlan&);
StepExperts step_experts(const ModelSpec&, const ModelWeights&);

/// InferenceStep::experts of a step that asked for these lists and saw these shares, exactly. `decisions`: as the step found them; then as it leaves them.
std::vector<std::vector<ExpertUse>> expert_uses(const ModelSpec&, const StepExperts&,
                                                std::span<const ExtentCache::Event>, CacheDecisions& decisions);

/// The same before a router has chosen: an expectation. Of each unit as many uses as expected_bytes (infer/stream_times.h) counts experts, to the next
/// whole number, which share the bytes that are expected to be read if the share `hits` of experts is there.
std::vector<std::vector<ExpertUse>> expected_expert_uses(const ModelSpec&, const StreamPlan&, int64_t tokens,
                                                         double hits);

/// Those that are there, in the order of items.
std::vector<ExpertMatrix> experts_there(const StepExperts&, const CacheDecisions&);

}  // namespace tern
