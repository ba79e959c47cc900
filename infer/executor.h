#pragma once
// The function that runs a batch. A seam: tests and studies of policies put a model of their own here.

#include <functional>

#include "infer/scheduler.h"
#include "model/unit.h"

namespace tern {

/// Returns logits (rows, vocab) in f32 or f64, in batch order: a row for each Work that wants logits and one more for each of
/// its guesses. Empty if no Work wants any. During the call, guesses stand at the end of their sequence's tokens.
using BatchExecutor = std::function<Tensor(const Batch&, const KvPool&)>;
/// The real one. It references its arguments, and leases one unit's weights at a time; exact kernels. Sequences of all of
/// the weights' `adapters` (model/adapter_files.h, load_adapter_beside) run in one forward. Layers of the pool that lie on the disk come and go
/// unit by unit (infer/kv_on_disk.h). Errors: those of KvOnDisk; TERN_CHECK for a sequence with an adapter beyond those.
BatchExecutor model_executor(const ModelSpec&, WeightSource, const RopeTable*, Arena&, int adapters = 0);

}  // namespace tern
