#pragma once
// Refuses a run that does not fit into memory, before it begins, and names the nearest settings that would fit.

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
/// Up to `count` changes with which the run fits in `budget` bytes, the nearest first. Distances: halving micro-batches 1, a level of
/// recomputation 2 (both keep the result), bf16 8, halving sequences 16. A change that contains all of a nearer change, and
/// more, comes after the others. Empty: no change fits.
std::vector<Alternative> nearest_fits(const ModelSpec&, const TrainSettings&, int64_t process_bytes, int64_t budget,
                                      int count = 3);

/// Refuses a run whose predicted memory is more than `budget` bytes. `source`: where the budget comes from, in words for people.
/// Errors: does_not_fit, with the bytes of each class and, without a plan, the nearest settings that fit and a --memory with which it would.
void require_fit(const ModelSpec&, const TrainSettings&, const PredictedMemory&, int64_t process_bytes, int64_t budget,
                 const std::string& source);

}  // namespace tern
