#pragma once
// The memory that an asynchronous run will take, predicted before anything is allocated.

#include <cstdint>

#include "spec/model_spec.h"
#include "train/fit.h"
#include "train/settings.h"

namespace tern {

/// What predict_memory (train/fit.h) returns for settings with `async`: the bytes of the server and of all workers together.
/// `process_bytes`: of the program itself, see program_bytes().
PredictedMemory predict_async_memory(const ModelSpec&, const TrainSettings&, int64_t process_bytes);

}  // namespace tern
