#pragma once
// For a step that its ranks cannot share equally: the nearest sizes that they can.

#include <string>

#include "train/settings.h"

namespace tern {

struct StepOrder {
  int64_t groups = 1, batch = 1, micro_batch = 1;  // as in TrainSettings
};

/// Sizes that check_ranks accepts for the same number of ranks: a number of groups (one that divides the batch, if there is
/// one, and of these the nearest), the batch rounded up to a multiple of it, the largest micro-batch not above the present one.
StepOrder nearest_order(const TrainSettings&);

/// "--batch 12 and --micro-batch 3": what of it differs from the settings. "": nothing.
std::string remedy_of(const TrainSettings&, const StepOrder&);

}  // namespace tern
