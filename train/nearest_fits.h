#pragma once
// A run that does not fit is refused before it begins, with the nearest settings that would fit.

#include <cstdint>
#include <string>
#include <vector>

#include "spec/model_spec.h"
#include "train/fit.h"
#include "train/settings.h"

namespace tern {

/// A change of settings and what it would take.
struct Alternative {
  std::string flags;  // "--micro-batch 8 --recompute attention"
  PredictedMemory memory;
};
/// Up to `count` settings that fit in `budget`, the least intrusive first: smaller micro-batches and recomputation
/// (same result), then bf16, then shorter sequences. Empty: nothing of the kind fits.
std::vector<Alternative> nearest_fits(const ModelSpec&, const TrainSettings&, int64_t process_bytes, int64_t budget,
                                      int count = 3);

/// Errors: does_not_fit with the breakdown and the nearest settings that fit. `source` says where the budget comes
/// from.
void require_fit(const ModelSpec&, const TrainSettings&, const PredictedMemory&, int64_t process_bytes, int64_t budget,
                 const std::string& source);

}  // namespace tern
