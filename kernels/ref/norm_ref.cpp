#include "kernels/ref/norm_ref.h"

#include <cmath>
#include <cstddef>

namespace tern {

void rms_norm_ref(std::span<const double> x, std::span<const double> w, double eps, std::span<double> y,
                  std::span<double> rstd, double offset) {
  const size_t width = w.size(), rows = x.size() / width;
  for (size_t i = 0; i < rows; ++i) {
    double squares = 0;
    for (size_t j = 0; j < width; ++j) squares += x[i * width + j] * x[i * width + j];
    const double r = 1 / std::sqrt(squares / static_cast<double>(width) + eps);
    for (size_t j = 0; j < width; ++j) y[i * width + j] = x[i * width + j] * r * (w[j] + offset);
    if (!rstd.empty()) rstd[i] = r;
  }
}

// y_j = x_j·w_j·r (w with its offset) with r = (mean(x²) + eps)^-1/2, so ∂r/∂x_k = -r³·x_k/n. With g = dy·w:
//   dx_k = Σ_j g_j ∂(x_j r)/∂x_k = r·g_k - r³·x_k·mean(g·x) = r·(g_k - x_k·r²·mean(g·x)).
void rms_norm_backward_input_ref(std::span<const double> dy, std::span<const double> x, std::span<const double> w,
                                 std::span<const double> rstd, std::span<double> dx, bool add, double offset) {
  const size_t width = w.size(), rows = x.size() / width;
  for (size_t i = 0; i < rows; ++i) {
    double dot = 0;
    for (size_t j = 0; j < width; ++j) dot += dy[i * width + j] * (w[j] + offset) * x[i * width + j];
    const double r = rstd[i], mean_gx = dot / static_cast<double>(width);
    for (size_t j = 0; j < width; ++j) {
      const double d = r * (dy[i * width + j] * (w[j] + offset) - x[i * width + j] * r * r * mean_gx);
      dx[i * width + j] = add ? dx[i * width + j] + d : d;
    }
  }
}

void rms_norm_backward_weight_ref(std::span<const double> dy, std::span<const double> x, std::span<const double> rstd,
                                  std::span<double> dw) {
  const size_t width = dw.size(), rows = x.size() / width;
  for (size_t i = 0; i < rows; ++i)
    for (size_t j = 0; j < width; ++j) dw[j] += dy[i * width + j] * x[i * width + j] * rstd[i];
}

void layer_norm_ref(std::span<const double> x, std::span<const double> w, std::span<const double> b, double eps,
                    std::span<double> y, std::span<double> mean, std::span<double> rstd) {
  const size_t width = w.size(), rows = x.size() / width;
  for (size_t i = 0; i < rows; ++i) {
    double sum = 0, squares = 0;
    for (size_t j = 0; j < width; ++j) sum += x[i * width + j];
    const double m = sum / static_cast<double>(width);
    for (size_t j = 0; j < width; ++j) squares += (x[i * width + j] - m) * (x[i * width + j] - m);
    const double r = 1 / std::sqrt(squares / static_cast<double>(width) + eps);
    for (size_t j = 0; j < width; ++j) y[i * width + j] = (x[i * width + j] - m) * r * w[j] + (b.empty() ? 0 : b[j]);
    if (!mean.empty()) mean[i] = m;
    if (!rstd.empty()) rstd[i] = r;
  }
}

// x̂ = (x - m)·r. ∂m/∂x_k = 1/n, ∂r/∂x_k = -r²·x̂_k/n, so ∂x̂_j/∂x_k = r·(δ_jk - 1/n - x̂_j·x̂_k/n). With g = dy·w:
//   dx_k = r·(g_k - mean(g) - x̂_k·mean(g·x̂)).
void layer_norm_backward_input_ref(std::span<const double> dy, std::span<const double> x, std::span<const double> w,
                                   std::span<const double> mean, std::span<const double> rstd, std::span<double> dx,
                                   bool add) {
  const size_t width = w.size(), rows = x.size() / width;
  for (size_t i = 0; i < rows; ++i) {
    double sum_g = 0, sum_gx = 0;
    for (size_t j = 0; j < width; ++j) {
      const double g = dy[i * width + j] * w[j];
      sum_g += g;
      sum_gx += g * (x[i * width + j] - mean[i]) * rstd[i];
    }
    const double mean_g = sum_g / static_cast<double>(width), mean_gx = sum_gx / static_cast<double>(width);
    for (size_t j = 0; j < width; ++j) {
      const double centred = (x[i * width + j] - mean[i]) * rstd[i];
      const double d = rstd[i] * (dy[i * width + j] * w[j] - mean_g - centred * mean_gx);
      dx[i * width + j] = add ? dx[i * width + j] + d : d;
    }
  }
}

void layer_norm_backward_weight_ref(std::span<const double> dy, std::span<const double> x, std::span<const double> mean,
                                    std::span<const double> rstd, std::span<double> dw, std::span<double> db) {
  const size_t width = dw.size(), rows = x.size() / width;
  for (size_t i = 0; i < rows; ++i)
    for (size_t j = 0; j < width; ++j) {
      dw[j] += dy[i * width + j] * (x[i * width + j] - mean[i]) * rstd[i];
      if (!db.empty()) db[j] += dy[i * width + j];
    }
}

}  // namespace tern
