#pragma once
// The disk space that a run will take, predicted, and compared with what the disk has free.

#include <algorithm>
#include <cstdint>

#include "base/io.h"
#include "spec/model_spec.h"
#include "train/settings.h"

namespace tern {

/// The bytes that the disk of OUT must have free for this run. Logs and packed text are left out; they are small beside the rest.
struct PredictedDisk {
  int64_t checkpoint = 0;       // of one checkpoint
  int64_t num_checkpoints = 0;  // those that the run keeps, and the one being written
  int64_t model = 0;            // of the exported model; with --keep-best of both models
  int64_t present = 0;          // of the checkpoints that OUT has already; new ones will replace them
  int64_t states = 0;           // of the optimizer's states, if they lie in a file there
  int64_t wanted() const { return std::max<int64_t>(0, checkpoint * num_checkpoints - present) + model + states; }
};
/// What this run will want. It reads which checkpoints OUT has. Errors: the disk's.
PredictedDisk predict_disk(const ModelSpec&, const TrainSettings&, Io&);
/// Refuses a run that the disk has no room for. If the free space is not known, the run passes.
/// Errors: does_not_fit, naming the directory, the bytes that are wanted and free, and a remedy.
void require_disk(const PredictedDisk&, const TrainSettings&, Io&);

}  // namespace tern
