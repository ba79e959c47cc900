#pragma once
// The function that runs a batch. Tests and studies of policies give the engine another one.

#include <functional>

#include "infer/scheduler.h"
#include "model/unit.h"

namespace tern {

class StepRecorder;  // infer/step_recorder.h

/// Runs a batch and returns logits (rows, vocab) in f32 or f64, in the order of the batch: one row for each Work that wants logits, and one more for
/// each of its guesses. Empty: no Work wants logits. During the call, a sequence's guesses are the last of its tokens.
using BatchExecutor = std::function<Tensor(const Batch&, const KvPool&)>;
/// The executor that runs a model, with the exact kernels. It leases the weights of one unit at a time. `adapters`: the number of adapters beside the
/// model (model/adapter_files.h, load_adapter_beside); sequences with different adapters run in one forward. Layers of the pool that lie on the disk
/// come and go unit by unit (infer/kv_on_disk.h). It runs the FORWARDs of the step's Program (infer/step_program.h); the rings of weights and of keys do what
/// the Program's LOADs and STOREs say. Products find their extents by themselves, so the list that it follows has no parts; it is lowered and validated once for batches with
/// logits and once for those without. `recorder`: told what each step did. Its arguments must outlive it.
/// Errors: those of KvOnDisk; TERN_CHECK: a sequence names an adapter beyond these.
BatchExecutor model_executor(const ModelSpec&, WeightSource, const RopeTable*, Arena&, int adapters = 0,
                             StepRecorder* recorder = nullptr);

}  // namespace tern
