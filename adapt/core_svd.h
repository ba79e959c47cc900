#pragma once
// Singular values and norm of a low-rank matrix, from its factors. For adapt/ alone.

#include "adapt/adapter_matrix.h"
#include "kernels/lapack/svd.h"

namespace tern {

/// xᵀ (width, rows) of x (rows, width).
std::vector<double> transposed(const std::vector<double>& x, int64_t rows, int64_t width);
/// Singular values and vectors of scale·b·a, without forming that product: as many as the rank, at most min(out, in).
ThinSvd core_svd(const AdapterMatrix&);
/// The squared Frobenius norm of scale·b·a, without forming that product.
double squared_norm(const AdapterMatrix&);

}  // namespace tern
