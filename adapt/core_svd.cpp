#include "adapt/core_svd.h"

#include <algorithm>

#include "kernels/lapack/product.h"

namespace tern {

std::vector<double> transposed(const std::vector<double>& x, int64_t rows, int64_t width) {
  std::vector<double> t(x.size());
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < width; ++j) t[static_cast<size_t>(j * rows + i)] = x[static_cast<size_t>(i * width + j)];
  return t;
}

ThinSvd core_svd(const AdapterMatrix& m) {
  const ThinQr of_b = thin_qr(m.b, m.out, m.rank), of_a = thin_qr(transposed(m.a, m.rank, m.in), m.in, m.rank);
  const int64_t height = std::min(m.out, m.rank), width = std::min(m.in, m.rank), k = std::min(height, width);
  std::vector<double> core = product_transposed(of_b.r, of_a.r, height, m.rank, width);
  for (double& x : core) x *= m.scale;
  ThinSvd inner = thin_svd(std::move(core), height, width);
  return {product(of_b.q, inner.u, m.out, height, k), inner.s, product_transposed(inner.vt, of_a.q, k, width, m.in)};
}

double squared_norm(const AdapterMatrix& m) {
  // tr(AAᵀ·BᵀB)
  const std::vector<double> b = transposed(m.b, m.out, m.rank), aa = product_transposed(m.a, m.a, m.rank, m.in, m.rank),
                            bb = product_transposed(b, b, m.rank, m.out, m.rank);
  double trace = 0;
  for (size_t i = 0; i < aa.size(); ++i) trace += aa[i] * bb[i];
  return m.scale * m.scale * trace;
}

}  // namespace tern
