#pragma once
// Eigenvectors of symmetric matrices, by LAPACK.

#include <cstdint>
#include <vector>

namespace tern {

struct SymmetricEigen {
  std::vector<double> values;   // descending
  std::vector<double> vectors;  // (n, n), row i belongs to values[i]; orthonormal, each row's largest number positive
};
/// The eigenvalues and eigenvectors of a symmetric matrix (n, n), of which the lower triangle is read. If
/// values are equal, LAPACK chooses the vectors that span their space: let no result depend on this choice.
/// Errors  bad_file: a number that is not finite. Source: kernels/lapack/orthonormal_bases.h.
SymmetricEigen symmetric_eigen(std::vector<double> matrix, int64_t n);

}  // namespace tern
