#pragma once
// The bytes that a run will write, predicted and compared with what the disk has free.

#include <algorithm>
#include <cstdint>

#include "base/io.h"
#include "spec/model_spec.h"
#include "train/settings.h"

namespace tern {

/// What a disk must have free for this run: the checkpoints it keeps and the one being written, and the exported model,
/// less the checkpoints that are there already. Logs and packed text come on top and are small beside them.
struct PredictedDisk {
  int64_t checkpoint = 0;       // bytes of one
  int64_t num_checkpoints = 0;  // at once
  int64_t model = 0;
  int64_t present = 0;  // bytes of the checkpoints that OUT has already; new ones will replace them
  int64_t states = 0;   // the optimizer's, where they lie in a file there
  int64_t wanted() const { return std::max<int64_t>(0, checkpoint * num_checkpoints - present) + model + states; }
};
PredictedDisk predict_disk(const ModelSpec&, const TrainSettings&, Io&);
/// Errors: does_not_fit naming the directory, bytes wanted and there, and the remedy. An unknown disk fits.
void require_disk(const PredictedDisk&, const TrainSettings&, Io&);

}  // namespace tern
