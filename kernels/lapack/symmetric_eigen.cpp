#include "kernels/lapack/symmetric_eigen.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "kernels/lapack/lapack_impl.h"
#include "kernels/lapack/orthonormal_bases.h"

namespace tern {
SymmetricEigen symmetric_eigen(std::vector<double> matrix, int64_t n) {
  TERN_CHECK(static_cast<int64_t>(matrix.size()) == n * n, "eigenvectors of {} numbers, {} rows", matrix.size(), n);
  if (!std::ranges::all_of(matrix, [](double x) { return std::isfinite(x); }))
    throw Error(ErrorKind::bad_file, "eigenvectors: a matrix of {} rows holds a number that is not finite", n);
  SymmetricEigen e{.values = std::vector<double>(static_cast<size_t>(n)), .vectors = {}};
  if (n == 0) return e;
  std::vector<double> work(static_cast<size_t>(eigen_work_elements(n)));
  eigenvectors<double>(matrix, n, e.values, work);
  e.vectors = std::move(matrix);
  return e;
}

}  // namespace tern
