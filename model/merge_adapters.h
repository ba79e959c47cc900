#pragma once
// Merges adapters into the weights beside which they stand.

#include "model/weights.h"

namespace tern {

/// Sums of squares over all merged matrices. change: of what the adapters
/// add. lost: of the error from rounding the sum to the stored type.
struct MergeError {
  double change = 0, lost = 0;
  int64_t matrices = 0;
  double relative() const;  // √(lost/change); 0 where nothing is added
};

/// w ← w + Σ scale·B·A of dense f32 or f64 weights, summed in f64, then rounded to `stored`; with magnitudes m:
/// m·(w + scale·B·A)/‖w + scale·B·A‖, row by row. Removes the branches.
/// Order   each number by itself: the same bits for any number of threads.
/// Errors  usage: a merged number is beyond what `stored` holds. TERN_CHECK: a weight that is not dense.
MergeError merge_adapters(const ModelSpec&, ModelWeights&, DType stored);

}  // namespace tern
