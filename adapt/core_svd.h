#pragma once
// Singular values and norm of a low-rank difference, from its factors. Stays in adapt/.

#include "adapt/combine.h"
#include "kernels/lapack/svd.h"

namespace tern {

/// xᵀ of x (rows, width).
std::vector<double> transposed(const std::vector<double>& x, int64_t rows, int64_t width);
/// Singular values and vectors of scale·b·a without forming it: as many as the rank, at most min(out, in).
ThinSvd core_svd(const AdapterMatrix&);
/// ‖scale·b·a‖², without forming it.
double squared_norm(const AdapterMatrix&);

}  // namespace tern
