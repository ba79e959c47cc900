#include "train/label_flip.h"

namespace tern {

bool flips_labels(const TrainSettings& s, int rank) {
  return s.robust && s.robust->attack == Attack::label_flip && rank >= s.ranks - s.robust->attackers;
}

void flip_labels(std::vector<MicroBatch>& batches, int64_t vocabulary) {
  for (MicroBatch& b : batches)
    for (int32_t& target : b.targets)
      if (target >= 0) target = static_cast<int32_t>(vocabulary - 1 - target);
}

}  // namespace tern
