#pragma once
// Eigenvectors of symmetric matrices, by LAPACK.

#include <cstdint>
#include <vector>

namespace tern {

struct SymmetricEigen {
  std::vector<double> values;   // falling
  std::vector<double> vectors;  // (n, n), row i belongs to values[i]; orthonormal, its largest number positive
};
/// The eigenvalues and eigenvectors of a symmetric matrix (n, n), by its lower triangle. Which vectors span the space of equal values is LAPACK's choice:
/// let no result depend on it.
/// Errors  bad_file: a number that is not finite. Source: kernels/lapack/orthonormal_bases.h.
SymmetricEigen symmetric_eigen(std::vector<double> matrix, int64_t n);

}  // namespace tern
