#pragma once
// Asynchronous training from its settings to OUT/model, behind train().

#include "train/trainer.h"

namespace tern {

/// Ranks that --async takes: the server and its workers.
inline int num_async_ranks(const TrainSettings& s) { return s.async->rule.workers + 1; }

/// train() of settings with `async`. Rank 0 is the server, the others are workers; a step is the receipt of one gradient of --batch
/// sequences. A gradient counts with the learning rate of step index + 1, the rate it would have had without delay.
/// Order    the bits depend on the order of arrivals, which checkpoints and OUT/arrivals.txt hold, and on no other timing;
///          `replay` takes it from a file. A run that was stopped or killed at any receipt goes on to the same bits under the same order.
/// Workers  one that leaves is not waited for; its last work is abandoned and its bucket stays short.
/// Errors   as train; bad_file, usage: a file of arrivals that is malformed, too short, or not what the checkpoint has; peer: all
///          workers have left, or the worker that --replay names next has.
TrainResult train_async(const TrainSettings&, const TrainHooks&, Io&, Worker);

/// Predicted bytes; what predict_memory returns for such settings.
PredictedMemory predict_async_memory(const ModelSpec&, const TrainSettings&, int64_t process_bytes);

}  // namespace tern
