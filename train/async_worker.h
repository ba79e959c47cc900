#pragma once
// A worker of asynchronous training: weights in, a gradient out, until the server stops it.

#include "comm/worker.h"
#include "train/feed.h"
#include "train/inputs.h"
#include "train/settings.h"

namespace tern {

/// A worker's Program: that of a step on one rank, without NORM and UPDATE at its end.
Program gradient_program(const ModelSpec&, const TrainSettings&);

/// Bytes that a worker keeps: its copy of the weights and its gradients.
int64_t async_worker_bytes(const ModelSpec&, DType);

/// Serves rank 0 of the worker's world. The gradient is that of the mean loss over the targets of the dispatch's samples, clipped to
/// --clip, plus --weight-decay · w of matrices and tables. It depends on the weights and the dispatch alone.
/// Errors  those of execute and of the transport.
void run_async_worker(const TrainSettings&, const TrainInputs&, const Feed&, Worker&);

}  // namespace tern
