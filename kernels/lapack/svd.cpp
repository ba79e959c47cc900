#include "kernels/lapack/svd.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "base/error.h"
#include "kernels/lapack/lapack_impl.h"

namespace tern {
namespace {

using Dgesdd = void(const char* job, const int* m, const int* n, double* a, const int* leading, double* s, double* u,
                    const int* leading_u, double* vt, const int* leading_vt, double* work, const int* work_size,
                    int* integers, int* info, size_t);
using Dgelqf = void(const int* m, const int* n, double* a, const int* leading, double* tau, double* work,
                    const int* work_size, int* info);
using Dorglq = void(const int* m, const int* n, const int* k, double* a, const int* leading, const double* tau,
                    double* work, const int* work_size, int* info);

Dgesdd* dgesdd() {
  static Dgesdd* const function = reinterpret_cast<Dgesdd*>(lapack_function("dgesdd_"));
  return function;
}
Dgelqf* dgelqf() {
  static Dgelqf* const function = reinterpret_cast<Dgelqf*>(lapack_function("dgelqf_"));
  return function;
}
Dorglq* dorglq() {
  static Dorglq* const function = reinterpret_cast<Dorglq*>(lapack_function("dorglq_"));
  return function;
}

void check(const std::vector<double>& matrix, int64_t m, int64_t n, const char* what) {
  TERN_CHECK(static_cast<int64_t>(matrix.size()) == m * n, "{} of {} numbers, shape ({}, {})", what, matrix.size(), m,
             n);
  if (!std::ranges::all_of(matrix, [](double x) { return std::isfinite(x); }))
    throw Error(ErrorKind::bad_file, "{}: a matrix ({}, {}) holds a number that is not finite", what, m, n);
}

}  // namespace

ThinSvd thin_svd(std::vector<double> matrix, int64_t m, int64_t n) {
  check(matrix, m, n, "singular values");
  const int64_t k = std::min(m, n);
  ThinSvd svd{std::vector<double>(static_cast<size_t>(m * k)), std::vector<double>(static_cast<size_t>(k)),
              std::vector<double>(static_cast<size_t>(k * n))};
  if (k == 0) return svd;
  // Rows are the columns of the transpose, whose left vectors, column by column, are the rows of vt, and whose right ones in their
  // transpose are the columns of u.
  const int rows = static_cast<int>(n), columns = static_cast<int>(m), inner = static_cast<int>(k);
  std::vector<int> integers(static_cast<size_t>(8 * k));
  double wanted = 0;
  int size = -1, info = 0;
  const auto call = [&](double* work) {
    dgesdd()("S", &rows, &columns, matrix.data(), &rows, svd.s.data(), svd.vt.data(), &rows, svd.u.data(), &inner, work,
             &size, integers.data(), &info, 1);
  };
  call(&wanted);
  size = static_cast<int>(wanted);
  std::vector<double> work(static_cast<size_t>(size));
  call(work.data());
  TERN_CHECK(info == 0, "dgesdd: {} for ({}, {})", info, m, n);
  for (int64_t i = 0; i < k; ++i) {
    const auto row = std::span(svd.vt).subspan(static_cast<size_t>(i * n), static_cast<size_t>(n));
    if (*std::ranges::max_element(row, {}, [](double x) { return std::abs(x); }) >= 0) continue;
    for (double& x : row) x = -x;
    for (int64_t j = 0; j < m; ++j) svd.u[static_cast<size_t>(j * k + i)] *= -1;
  }
  return svd;
}

ThinQr thin_qr(std::vector<double> matrix, int64_t m, int64_t n) {
  check(matrix, m, n, "orthogonal factors");
  const int64_t k = std::min(m, n);
  ThinQr qr{std::vector<double>(static_cast<size_t>(m * k)), std::vector<double>(static_cast<size_t>(k * n))};
  if (k == 0) return qr;
  const int rows = static_cast<int>(n), columns = static_cast<int>(m), inner = static_cast<int>(k);
  std::vector<double> tau(static_cast<size_t>(k)), work(1);
  int size = -1, info = 0;
  dgelqf()(&rows, &columns, matrix.data(), &rows, tau.data(), work.data(), &size, &info);
  size = static_cast<int>(work[0]);
  work.resize(static_cast<size_t>(size));
  dgelqf()(&rows, &columns, matrix.data(), &rows, tau.data(), work.data(), &size, &info);
  TERN_CHECK(info == 0, "dgelqf: {} for ({}, {})", info, m, n);
  for (int64_t i = 0; i < k; ++i)
    for (int64_t j = i; j < n; ++j) qr.r[static_cast<size_t>(i * n + j)] = matrix[static_cast<size_t>(i * n + j)];
  size = -1;
  double wanted = 0;
  dorglq()(&inner, &columns, &inner, matrix.data(), &rows, tau.data(), &wanted, &size, &info);
  size = static_cast<int>(wanted);
  work.resize(static_cast<size_t>(size));
  dorglq()(&inner, &columns, &inner, matrix.data(), &rows, tau.data(), work.data(), &size, &info);
  TERN_CHECK(info == 0, "dorglq: {} for ({}, {})", info, m, n);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < k; ++j) qr.q[static_cast<size_t>(i * k + j)] = matrix[static_cast<size_t>(i * n + j)];
  return qr;
}

}  // namespace tern
