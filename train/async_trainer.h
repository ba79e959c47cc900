#pragma once
// Asynchronous training from its settings to OUT/model. train() calls it for settings with `async`.

#include "train/trainer.h"

namespace tern {

/// The number of ranks of an asynchronous run: the server and its workers.
inline int num_async_ranks(const TrainSettings& s) { return s.async->rule.workers + 1; }

/// Trains as train() says, with these differences.
/// Ranks    rank 0 is the server, the others are workers. A step is the receipt of one gradient of --batch sequences. Its learning rate is
///          that of step index + 1 (AsyncHeader::index): the rate that the gradient would have had without delay.
/// Order    the bits depend on the order of arrivals and on no other timing. Checkpoints and OUT/arrivals.txt hold this order; `replay`
///          takes it from a file. A run that was stopped or killed at any receipt, and resumed, ends with the same bits if the order is the same.
/// Workers  nobody waits for a worker that leaves. Its last work is given up, so its bucket (update/async_rule.h) stays short.
/// Errors   as train; bad_file, usage: a file of arrivals that is malformed, too short, or not what the checkpoint has; peer: all
///          workers have left, or the worker that --replay names next has.
TrainResult train_async(const TrainSettings&, const TrainHooks&, Io&, Worker);

}  // namespace tern
