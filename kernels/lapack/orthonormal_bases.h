#pragma once
// Orthonormal bases of matrices, by LAPACK, which is loaded with the first call.

#include <cstdint>
#include <span>

namespace tern {

/// Elements that `work` below must have for n rows: the least workspace that LAPACK needs for its numbers and its integers.
int64_t eigen_work_elements(int64_t n);
/// Replaces a symmetric matrix (n, n), of which it reads the lower triangle, by its orthonormal eigenvectors: row i belongs to values[i]. The
/// values descend; each vector's number of the largest size is positive. If values are equal, LAPACK chooses the vectors that span their space.
/// Shapes  values (n); work (eigen_work_elements(n)).
/// Order   LAPACK's, in one thread unless the library that the machine has splits its work: the bits are that library's.
/// Errors  diverged: a number that is not finite. bad_file: no LAPACK. Source: ssyevd, dsyevd (divide and conquer).
template <class T>
void eigenvectors(std::span<T> symmetric, int64_t n, std::span<T> values, std::span<T> work);

/// Elements that `work` below must have for rows of n numbers, of which the first `given` are given.
int64_t basis_work_elements(int64_t n, int64_t given);
/// Replaces the matrix (n, n), whose first `given` rows are vectors of any norm, by an orthonormal
/// basis. Its first k rows span the first k of the given vectors, for each k ≤ given for which these
/// are independent. The other rows complete the basis; they too depend on the given vectors alone.
/// Order, errors as above. Source: Householder's QR, sgeqrf and sorgqr, dgeqrf and dorgqr.
template <class T>
void orthonormal_rows(std::span<T> rows, int64_t n, int64_t given, std::span<T> work);

}  // namespace tern
