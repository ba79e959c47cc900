#pragma once
// The nearest sizes of a step that its ranks can share, for one that they cannot.

#include <string>

#include "train/settings.h"

namespace tern {

struct StepOrder {
  int64_t groups = 1, batch = 1, micro_batch = 1;  // as in TrainSettings
};

/// Numbers that check_ranks takes for as many ranks: the nearest number of groups (of those, the nearest that divides
/// the batch), the next batch that it divides, the largest micro-batch not above the present one.
StepOrder nearest_order(const TrainSettings&);

/// "--batch 12 and --micro-batch 3": what of it differs from the settings. "": nothing.
std::string remedy_of(const TrainSettings&, const StepOrder&);

}  // namespace tern
