#include "kernels/lapack/product.h"

#include "kernels/lapack/lapack_impl.h"

namespace tern {
namespace {

using Dgemm = void(const char* transpose_a, const char* transpose_b, const int* m, const int* n, const int* k,
                   const double* alpha, const double* a, const int* leading_a, const double* b, const int* leading_b,
                   const double* beta, double* c, const int* leading_c, size_t, size_t);

Dgemm* dgemm() {
  static Dgemm* const function = reinterpret_cast<Dgemm*>(blas_function("dgemm_"));
  return function;
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

std::vector<double> product(std::span<const double> a, std::span<const double> b, int64_t m, int64_t k, int64_t n) {
  return multiply(a, b, m, k, n, false);
}
std::vector<double> product_transposed(std::span<const double> a, std::span<const double> b, int64_t m, int64_t k,
                                       int64_t n) {
  return multiply(a, b, m, k, n, true);
}

}  // namespace tern
