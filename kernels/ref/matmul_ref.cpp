#include "kernels/ref/matmul_ref.h"

namespace tern {

void multiply_ref(std::span<const double> x, std::span<const double> w, std::span<const double> bias, int64_t m,
                  int64_t n, int64_t k, bool add, std::span<double> y) {
  for (int64_t r = 0; r < m; ++r)
    for (int64_t c = 0; c < n; ++c) {
      double sum = 0;
      for (int64_t i = 0; i < k; ++i) sum += x[r * k + i] * w[c * k + i];
      if (!bias.empty()) sum += bias[c];
      y[r * n + c] = add ? y[r * n + c] + sum : sum;
    }
}

void multiply_nn_ref(std::span<const double> dy, std::span<const double> w, int64_t m, int64_t n, int64_t k, bool add,
                     std::span<double> dx) {
  for (int64_t r = 0; r < m; ++r)
    for (int64_t c = 0; c < k; ++c) {
      double sum = 0;
      for (int64_t i = 0; i < n; ++i) sum += dy[r * n + i] * w[i * k + c];
      dx[r * k + c] = add ? dx[r * k + c] + sum : sum;
    }
}

void multiply_tn_ref(std::span<const double> dy, std::span<const double> x, int64_t m, int64_t n, int64_t k,
                     std::span<double> dw) {
  for (int64_t r = 0; r < n; ++r)
    for (int64_t c = 0; c < k; ++c) {
      double sum = 0;
      for (int64_t i = 0; i < m; ++i) sum += dy[i * n + r] * x[i * k + c];
      dw[r * k + c] += sum;
    }
}

}  // namespace tern
