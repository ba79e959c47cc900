#pragma once
// A plan of serving as the command line of another framework.

#include <cstdint>
#include <string>

#include "plan/emit.h"
#include "plan/inference_job.h"
#include "plan/serving_search.h"

namespace tern {

/// vLLM's command line for this plan. vLLM runs prompts and decoding in turns on the same devices, with all weights,
/// keys and values on the devices in the compute type. `device`, `devices_of_node`: of the nodes that the plan uses.
/// Errors: usage, naming what vLLM lacks for the plan.
EmittedPlan emit_serving(const std::string& model, const InferenceJob&, const ServingPlan&, const DeviceType& device,
                         int64_t devices_of_node);

}  // namespace tern
