#include "kernels/ref/newton_schulz_ref.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/newton_schulz.h"
#include "kernels/ref/matmul_ref.h"

namespace tern {
namespace {

std::vector<double> transposed(std::span<const double> x, int64_t rows, int64_t columns) {
  std::vector<double> y(x.size());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      y[static_cast<size_t>(c * rows + r)] = x[static_cast<size_t>(r * columns + c)];
  return y;
}

}  // namespace

void newton_schulz_ref(std::span<double> matrix, int64_t rows, int64_t columns) {
  const bool turned = rows > columns;
  const int64_t m = std::min(rows, columns), n = std::max(rows, columns);
  std::vector<double> x(matrix.begin(), matrix.end());
  if (turned) x = transposed(x, rows, columns);
  double squares = 0;
  for (const double value : x) squares += value * value;
  for (double& value : x) value /= std::max(std::sqrt(squares), 1e-7);
  const auto [a, b, c] = kNewtonSchulz;
  std::vector<double> gram(static_cast<size_t>(m * m)), squared(gram.size()), product(x.size());
  for (int step = 0; step < kNewtonSchulzSteps; ++step) {
    multiply_ref(x, x, {}, m, m, n, false, gram);          // A = X·Xᵀ
    multiply_nn_ref(gram, gram, m, m, m, false, squared);  // A²
    for (size_t i = 0; i < gram.size(); ++i) gram[i] = b * gram[i] + c * squared[i];
    multiply_nn_ref(gram, x, m, m, n, false, product);
    for (size_t i = 0; i < x.size(); ++i) x[i] = a * x[i] + product[i];
  }
  if (turned) x = transposed(x, m, n);
  std::copy(x.begin(), x.end(), matrix.begin());
}

}  // namespace tern
