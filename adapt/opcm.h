#pragma once
// Adapters merged one after the other by orthogonal projection. For adapt/ alone.

#include "adapt/adapter_matrix.h"
#include "kernels/lapack/svd.h"

namespace tern {

/// The adapter of one matrix, and its weight in a sum.
/// The pointer looks into the adapters that are combined.
struct WeightedMatrix {
  double weight;
  const AdapterMatrix* matrix;
};

/// OPCM as combine_adapters (adapt/combine.h) describes it. `weights`: by adapter. Errors: as there.
AdapterMatrices merge_one_by_one(const std::vector<AdapterMatrices>& adapters, const std::vector<double>& weights);

}  // namespace tern
