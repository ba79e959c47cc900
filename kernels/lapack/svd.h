#pragma once
// Orthogonal factors of matrices in f64, by LAPACK. All matrices are row-major.

#include <cstdint>
#include <vector>

namespace tern {

/// matrix = u·diag(s)·vt with k = min(m, n): u (m, k), vt (k, n). The columns of u and the rows of vt are orthonormal; s descends.
struct ThinSvd {
  std::vector<double> u, s, vt;
};
/// The factors of a matrix (m, n). In each row of vt the number of the largest size is positive. If singular
/// values are equal, LAPACK chooses the vectors that span their space: let no result depend on this choice.
/// Errors  bad_file: a number that is not finite. Source: dgesdd (divide and conquer).
ThinSvd thin_svd(std::vector<double> matrix, int64_t m, int64_t n);

/// matrix = q·r with k = min(m, n): q (m, k) with orthonormal columns, r (k, n) upper triangular. Signs are those of LAPACK's
/// reflectors.
struct ThinQr {
  std::vector<double> q, r;
};
/// The factors of a matrix (m, n). Errors: bad_file: a number that is not finite. Source:
/// dgelqf and dorglq, applied to the transpose, as Fortran reads rows as columns.
ThinQr thin_qr(std::vector<double> matrix, int64_t m, int64_t n);

}  // namespace tern
