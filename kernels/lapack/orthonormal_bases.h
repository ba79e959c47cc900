#pragma once
// Orthonormal bases of matrices, by LAPACK, which is loaded with the first call.

#include <cstdint>
#include <span>

namespace tern {

/// Elements of `work` below, for n rows: what LAPACK needs at least, for its numbers and its integers.
int64_t eigen_work_elements(int64_t n);
/// A symmetric matrix (n, n), by its lower triangle, becomes its eigenvectors: row i belongs to values[i], which fall; orthonormal, the largest number of
/// each positive. Which vectors span the space of equal values is LAPACK's choice.
/// Shapes  values (n); work (eigen_work_elements(n)).
/// Order   one thread's, unless the LAPACK that the machine has splits its work: the bits are those of that library.
/// Errors  diverged: a number that is not finite. bad_file: no LAPACK. Source: ssyevd, dsyevd (divide and conquer).
template <class T>
void eigenvectors(std::span<T> symmetric, int64_t n, std::span<T> values, std::span<T> work);

/// Elements of `work` below, for rows of n numbers, of which `given` are given.
int64_t basis_work_elements(int64_t n, int64_t given);
/// Replaces the matrix (n, n), whose first `given` rows are vectors of any norm, by an orthonormal
/// basis. Its first k rows span the first k of these vectors, for each k ≤ given where they are
/// independent. The other rows complete the basis, as a function of those vectors.
/// Order, errors as above. Source: Householder's QR, sgeqrf and sorgqr, dgeqrf and dorgqr.
template <class T>
void orthonormal_rows(std::span<T> rows, int64_t n, int64_t given, std::span<T> work);

}  // namespace tern
