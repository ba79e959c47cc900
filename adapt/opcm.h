#pragma once
// Adapters merged one after the other by orthogonal projection, and what it and combine share. Stays in adapt/.

#include "adapt/combine.h"
#include "kernels/lapack/svd.h"

namespace tern {

struct WeightedMatrix {
  double weight;
  const AdapterMatrix* matrix;
};

/// Singular values and vectors of scale·b·a without forming it: as many as the rank, at most min(out, in).
ThinSvd core_svd(const AdapterMatrix&);
/// ‖scale·b·a‖², without forming it.
double squared_norm(const AdapterMatrix&);

/// OPCM as combine.h states it; weights of each adapter.
AdapterMatrices merge_one_by_one(const std::vector<AdapterMatrices>& adapters, const std::vector<double>& weights);

}  // namespace tern
