#pragma once
// A worker of asynchronous training: it receives weights and sends a gradient, until the server stops it.

#include "comm/worker.h"
#include "train/feed.h"
#include "train/inputs.h"
#include "train/settings.h"

namespace tern {

/// A worker's Program: that of a step on one rank, without its NORM and UPDATEs.
Program gradient_program(const ModelSpec&, const TrainSettings&);

/// Bytes that a worker keeps: its copy of the weights and its gradients.
int64_t async_worker_bytes(const ModelSpec&, DType);

/// Computes gradients until rank 0 of the worker's world sends `stop`. A gradient is that of the mean loss over the targets of the
/// dispatch's samples, clipped to --clip, plus --weight-decay · w of matrices and tables. It depends only on the weights and the
/// dispatch.
/// Errors  those of execute and of the transport.
void run_async_worker(const TrainSettings&, const TrainInputs&, const Feed&, Worker&);

}  // namespace tern
