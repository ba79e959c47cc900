#pragma once
// Root-mean-square and layer norm, forward and backward. T is float or bf16 (explicitly instantiated); sums are f32.
// Twin: kernels/ref/norm_ref.h.

#include <span>

namespace tern {

/// y = x·(w + offset) / sqrt(mean(x²) + eps), each row by itself.
/// Shapes  x, y (rows, width) contiguous, y may be x if no backward follows; w (width); rstd (rows), or empty: not kept.
/// Order   a row is summed in one fixed order, whatever `rows` or the number of threads is.
/// Source  Zhang & Sennrich 2019, arXiv:1910.07467, eq. 4 (number recalled); eps inside the root as in Llama.
template <class T>
void rms_norm(std::span<const T> x, std::span<const T> w, float eps, std::span<T> y, std::span<float> rstd,
              float offset = 0);

/// r = rstd, g = dy·(w + offset):  dx = r·(g - x·r²·mean(g·x)).  dx may be dy. If `add`, dx += instead of =.
template <class T>
void rms_norm_backward_input(std::span<const T> dy, std::span<const T> x, std::span<const T> w,
                             std::span<const float> rstd, std::span<T> dx, bool add, float offset = 0);
/// dw += Σ_rows dy·x·r.  Order: rows ascending within each column, whatever the number of threads.
template <class T>
void rms_norm_backward_weight(std::span<const T> dy, std::span<const T> x, std::span<const float> rstd,
                              std::span<float> dw);

/// y = (x - mean)·w / sqrt(var + eps) + b.  b may be empty. mean, rstd (rows) may be empty (not kept).
/// Source  Ba et al. 2016, arXiv:1607.06450; biased variance as in PyTorch.
template <class T>
void layer_norm(std::span<const T> x, std::span<const T> w, std::span<const T> b, float eps, std::span<T> y,
                std::span<float> mean, std::span<float> rstd);
/// x̂ = (x-mean)·r, g = dy·w:  dx = r·(g - mean(g) - x̂·mean(g·x̂)).  dx may be dy. If `add`, dx +=.
template <class T>
void layer_norm_backward_input(std::span<const T> dy, std::span<const T> x, std::span<const T> w,
                               std::span<const float> mean, std::span<const float> rstd, std::span<T> dx, bool add);
/// dw += Σ dy·x̂, db += Σ dy (db may be empty).
template <class T>
void layer_norm_backward_weight(std::span<const T> dy, std::span<const T> x, std::span<const float> mean,
                                std::span<const float> rstd, std::span<float> dw, std::span<float> db);

}  // namespace tern
