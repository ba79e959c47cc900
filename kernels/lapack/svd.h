#pragma once
// Orthogonal factors of matrices in f64, by LAPACK. All matrices are row-major.

#include <cstdint>
#include <vector>

namespace tern {

/// matrix = u·diag(s)·vt with k = min(m, n): u (m, k), vt (k, n); the columns of u and the rows of vt are orthonormal, s falls.
struct ThinSvd {
  std::vector<double> u, s, vt;
};
/// The factors of a matrix (m, n). The largest number of each row of vt is positive. Which vectors span the space of equal singular
/// values is LAPACK's choice: let no result depend on it.
/// Errors  bad_file: a number that is not finite. Source: dgesdd (divide and conquer).
ThinSvd thin_svd(std::vector<double> matrix, int64_t m, int64_t n);

/// matrix = q·r with k = min(m, n): q (m, k) with orthonormal columns, r (k, n) upper triangular. Signs are those of LAPACK's
/// reflectors.
struct ThinQr {
  std::vector<double> q, r;
};
/// The factors of a matrix (m, n). Errors  bad_file: a number that is not finite. Source: dgelqf and dorglq of the transpose, which
/// is how Fortran reads the rows.
ThinQr thin_qr(std::vector<double> matrix, int64_t m, int64_t n);

}  // namespace tern
