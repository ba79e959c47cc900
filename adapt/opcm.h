#pragma once
// Adapters merged one after the other by orthogonal projection. Stays in adapt/.

#include "adapt/combine.h"
#include "kernels/lapack/svd.h"

namespace tern {

struct WeightedMatrix {
  double weight;
  const AdapterMatrix* matrix;
};

/// OPCM as combine.h states it; weights of each adapter.
AdapterMatrices merge_one_by_one(const std::vector<AdapterMatrices>& adapters, const std::vector<double>& weights);

}  // namespace tern
