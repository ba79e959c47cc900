#pragma once
// The time of a decoded token unit by unit, for a caller that puts something between units, such as reading keys from a disk.

#include <cstdint>
#include <vector>

#include "hardware/machine.h"
#include "plan/inference_job.h"
#include "spec/model_spec.h"

namespace tern {

/// The time in ps that each unit of the model takes when one device, which holds everything, decodes one token for each of `users` users.
/// The head's time includes choosing the tokens. The times add up to decode_ps of serving_times (plan/inference.h) for that layout.
std::vector<int64_t> decode_unit_ps(const ModelSpec&, const InferenceJob&, const Machine&, int64_t users);

}  // namespace tern
