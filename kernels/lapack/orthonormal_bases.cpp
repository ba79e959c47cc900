#include "kernels/lapack/orthonormal_bases.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "kernels/lapack/lapack_impl.h"

namespace tern {
namespace {

// Fortran's calling convention: everything by address, matrices by columns, the lengths of texts at the end.
template <class T>
using Syevd = void(const char* job, const char* triangle, const int* n, T* a, const int* leading, T* values, T* work,
                   const int* work_size, int* integers, const int* integers_size, int* info, size_t, size_t);
template <class T>
using Geqrf = void(const int* m, const int* n, T* a, const int* leading, T* factors, T* work, const int* work_size,
                   int* info);
template <class T>
using Orgqr = void(const int* m, const int* n, const int* k, T* a, const int* leading, const T* factors, T* work,
                   const int* work_size, int* info);

template <class Function>
Function* lapack(const char* name) {
  return reinterpret_cast<Function*>(lapack_function(name));
}
template <class T>
Syevd<T>* syevd() {
  static auto* const function = lapack<Syevd<T>>(sizeof(T) == 4 ? "ssyevd_" : "dsyevd_");
  return function;
}
template <class T>
Geqrf<T>* geqrf() {
  static auto* const function = lapack<Geqrf<T>>(sizeof(T) == 4 ? "sgeqrf_" : "dgeqrf_");
  return function;
}
template <class T>
Orgqr<T>* orgqr() {
  static auto* const function = lapack<Orgqr<T>>(sizeof(T) == 4 ? "sorgqr_" : "dorgqr_");
  return function;
}

constexpr int64_t kBlock = 32;  // columns that LAPACK takes together, where it has room for them

template <class T>
void make_largest_positive(std::span<T> v) {
  const auto largest = std::ranges::max_element(v, {}, [](T x) { return std::abs(x); });
  if (largest != v.end() && *largest < 0)
    for (T& x : v) x = -x;
}

}  // namespace

int64_t eigen_work_elements(int64_t n) { return 1 + 6 * n + 2 * n * n + 3 + 5 * n; }

template <class T>
void eigenvectors(std::span<T> symmetric, int64_t n, std::span<T> values, std::span<T> work) {
  TERN_CHECK(std::ssize(symmetric) == n * n && std::ssize(values) == n && std::ssize(work) >= eigen_work_elements(n),
             "eigenvectors: {} numbers of {} rows, {} values, {} to work with", symmetric.size(), n, values.size(),
             work.size());
  if (n == 0) return;
  if (!std::ranges::all_of(symmetric, [](T x) { return std::isfinite(x); }))
    throw Error(ErrorKind::diverged, "eigenvectors: a matrix of {} rows holds a number that is not finite", n);
  const int size = static_cast<int>(n), num_work = static_cast<int>(1 + 6 * n + 2 * n * n),
            num_integers = static_cast<int>(3 + 5 * n);
  static_assert(sizeof(int) <= sizeof(T));
  int* integers = reinterpret_cast<int*>(work.data() + num_work);
  int info = 0;
  // The lower triangle by rows is the upper one by columns.
  syevd<T>()("V", "U", &size, symmetric.data(), &size, values.data(), work.data(), &num_work, integers, &num_integers,
             &info, 1, 1);
  TERN_CHECK(info == 0, "syevd: {} for {} rows", info, n);
  // LAPACK's rise.
  std::ranges::reverse(values);
  const auto row = [&](int64_t i) { return symmetric.subspan(static_cast<size_t>(i * n), static_cast<size_t>(n)); };
  for (int64_t i = 0; i < n / 2; ++i) std::ranges::swap_ranges(row(i), row(n - 1 - i));
  for (int64_t i = 0; i < n; ++i) make_largest_positive(row(i));
}

int64_t basis_work_elements(int64_t n, int64_t given) { return given + kBlock * std::max<int64_t>(n, 1); }

template <class T>
void orthonormal_rows(std::span<T> rows, int64_t n, int64_t given, std::span<T> work) {
  TERN_CHECK(std::ssize(rows) == n * n && given <= n && std::ssize(work) >= basis_work_elements(n, given),
             "orthonormal_rows: {} numbers, {} of {} rows given, {} to work with", rows.size(), given, n, work.size());
  if (n == 0) return;
  if (!std::ranges::all_of(rows.first(static_cast<size_t>(given * n)), [](T x) { return std::isfinite(x); }))
    throw Error(ErrorKind::diverged, "orthonormal_rows: {} rows hold a number that is not finite", given);
  const std::span<T> factors = work.first(static_cast<size_t>(given)), room = work.subspan(static_cast<size_t>(given));
  const int size = static_cast<int>(n), k = static_cast<int>(given), num_room = static_cast<int>(room.size());
  int info = 0;
  if (given > 0) geqrf<T>()(&size, &k, rows.data(), &size, factors.data(), room.data(), &num_room, &info);
  TERN_CHECK(info == 0, "geqrf: {} for {} rows", info, n);
  orgqr<T>()(&size, &size, &k, rows.data(), &size, factors.data(), room.data(), &num_room, &info);
  TERN_CHECK(info == 0, "orgqr: {} for {} rows", info, n);
}

template void eigenvectors(std::span<float>, int64_t, std::span<float>, std::span<float>);
template void eigenvectors(std::span<double>, int64_t, std::span<double>, std::span<double>);
template void orthonormal_rows(std::span<float>, int64_t, int64_t, std::span<float>);
template void orthonormal_rows(std::span<double>, int64_t, int64_t, std::span<double>);

}  // namespace tern
