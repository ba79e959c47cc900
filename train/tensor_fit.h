#pragma once

#include "train/fit.h"

namespace tern {

/// Replaces weights, gradients, states, the beginning and messages in `plan`, which has them for one rank with the whole model, by those
/// of all ranks that share out each matrix together. The rest of `plan` stays. widest: elements of the whole model's largest unit.
void predict_tensor_parts(const ModelSpec&, const TrainSettings&, int64_t widest, MemoryPlan& plan);

}  // namespace tern
