#pragma once
// A plan of serving as the command line of another framework.

#include <cstdint>
#include <string>

#include "plan/emit.h"
#include "plan/inference_job.h"
#include "plan/serving_search.h"

namespace tern {

/// vLLM's command line for this way of serving: prompts and decoding take turns on the same devices, all weights, keys
/// and values are on the devices, in the compute type. `device`, `devices_of_node`: of the nodes that the plan lies on.
/// Errors: usage, naming what vLLM lacks.
EmittedPlan emit_serving(const std::string& model, const InferenceJob&, const ServingPlan&, const DeviceType& device,
                         int64_t devices_of_node);

}  // namespace tern
