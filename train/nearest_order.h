#pragma once
// The nearest sizes of a step that its ranks can share equally.

#include <string>

#include "train/settings.h"

namespace tern {

/// The sizes that fix the order of a step's sums.
struct StepOrder {
  int64_t groups = 1, batch = 1, micro_batch = 1;  // as in TrainSettings
};

/// Sizes that check_ranks accepts for the same number of ranks. groups: among the numbers that check_ranks accepts, the nearest that divides
/// the batch, or else the nearest. batch: rounded up to a multiple of groups. micro_batch: the largest that is not above the present one.
StepOrder nearest_order(const TrainSettings&);

/// The options that give the settings the sizes of a StepOrder, as one would type them: "--batch 12 and --micro-batch 3". "": none is needed.
std::string remedy_of(const TrainSettings&, const StepOrder&);

}  // namespace tern
