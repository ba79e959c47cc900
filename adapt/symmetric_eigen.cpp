#include "adapt/symmetric_eigen.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/late_library.h"

namespace tern {
namespace {

// Fortran's calling convention: everything by address, matrices by columns, the lengths of texts at the end.
using Dsyevd = void(const char* job, const char* triangle, const int* n, double* a, const int* leading, double* values,
                    double* work, const int* work_size, int* integers, const int* integers_size, int* info, size_t,
                    size_t);
using Dgemm = void(const char* transpose_a, const char* transpose_b, const int* m, const int* n, const int* k,
                   const double* alpha, const double* a, const int* leading_a, const double* b, const int* leading_b,
                   const double* beta, double* c, const int* leading_c, size_t, size_t);

constexpr const char* kPurpose =
    "continual learning needs LAPACK and BLAS: install them (Debian: liblapack3, libblas3)";
Dsyevd* dsyevd() {
  static LateLibrary lapack({"liblapack.so.3", "liblapack.so"}, kPurpose);
  static Dsyevd* const function = reinterpret_cast<Dsyevd*>(lapack.function("dsyevd_"));
  return function;
}
Dgemm* dgemm() {
  static LateLibrary blas({"libblas.so.3", "libblas.so"}, kPurpose);
  static Dgemm* const function = reinterpret_cast<Dgemm*>(blas.function("dgemm_"));
  return function;
}

void make_largest_positive(std::span<double> v) {
  const auto largest = std::ranges::max_element(v, {}, [](double x) { return std::abs(x); });
  if (largest != v.end() && *largest < 0)
    for (double& x : v) x = -x;
}

// A matrix by rows is its transpose by columns, so bᵀ·aᵀ is asked for.
std::vector<double> multiply(std::span<const double> a, std::span<const double> b, int64_t m, int64_t k, int64_t n,
                             bool b_transposed) {
  std::vector<double> c(static_cast<size_t>(m * n));
  if (m == 0 || n == 0 || k == 0) return c;
  const int rows = static_cast<int>(m), depth = static_cast<int>(k), columns = static_cast<int>(n);
  const double one = 1, zero = 0;
  dgemm()(b_transposed ? "T" : "N", "N", &columns, &rows, &depth, &one, b.data(), b_transposed ? &depth : &columns,
          a.data(), &depth, &zero, c.data(), &columns, 1, 1);
  return c;
}

}  // namespace

SymmetricEigen symmetric_eigen(std::vector<double> matrix, int64_t n) {
  TERN_CHECK(static_cast<int64_t>(matrix.size()) == n * n, "eigenvectors of {} numbers, {} rows", matrix.size(), n);
  if (!std::ranges::all_of(matrix, [](double x) { return std::isfinite(x); }))
    throw Error(ErrorKind::bad_file, "eigenvectors: a matrix of {} rows holds a number that is not finite", n);
  SymmetricEigen e{.values = std::vector<double>(static_cast<size_t>(n)), .vectors = {}};
  if (n == 0) return e;
  // The lower triangle by rows is the upper one by columns.
  const int size = static_cast<int>(n);
  int info = 0, num_integers = -1, num_work = -1, integers_wanted = 0;
  double work_wanted = 0;
  dsyevd()("V", "U", &size, matrix.data(), &size, e.values.data(), &work_wanted, &num_work, &integers_wanted,
           &num_integers, &info, 1, 1);
  num_work = static_cast<int>(work_wanted), num_integers = integers_wanted;
  std::vector<double> work(static_cast<size_t>(num_work));
  std::vector<int> integers(static_cast<size_t>(num_integers));
  dsyevd()("V", "U", &size, matrix.data(), &size, e.values.data(), work.data(), &num_work, integers.data(),
           &num_integers, &info, 1, 1);
  TERN_CHECK(info == 0, "dsyevd: {} for {} rows", info, n);
  // LAPACK's rise.
  std::ranges::reverse(e.values);
  e.vectors.resize(matrix.size());
  for (int64_t i = 0; i < n; ++i) {
    const auto to = std::span(e.vectors).subspan(static_cast<size_t>(i * n), static_cast<size_t>(n));
    std::copy_n(matrix.begin() + (n - 1 - i) * n, n, to.begin());
    make_largest_positive(to);
  }
  return e;
}

std::vector<double> product(std::span<const double> a, std::span<const double> b, int64_t m, int64_t k, int64_t n) {
  return multiply(a, b, m, k, n, false);
}
std::vector<double> product_transposed(std::span<const double> a, std::span<const double> b, int64_t m, int64_t k,
                                       int64_t n) {
  return multiply(a, b, m, k, n, true);
}

}  // namespace tern
