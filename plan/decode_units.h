#pragma once
// A decoded token unit by unit, for a caller that sets something between the units, such as keys that come from a disk.

#include <cstdint>
#include <vector>

#include "hardware/machine.h"
#include "plan/inference_job.h"
#include "spec/model_spec.h"

namespace tern {

/// The time in ps that each unit of the model takes when one device, which holds everything, decodes a token of each of `users` users. The
/// head's time includes choosing the tokens. Their sum is decode_ps of serving_times (plan/inference.h) for that layout.
std::vector<int64_t> decode_unit_ps(const ModelSpec&, const InferenceJob&, const Machine&, int64_t users);

}  // namespace tern
