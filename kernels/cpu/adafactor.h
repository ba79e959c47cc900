#pragma once
// Adafactor on one parameter. Twin: kernels/ref/adafactor_ref.h.

#include <cstdint>
#include <span>

#include "base/dtype.h"

namespace tern {

struct AdafactorStep {
  double learning_rate, weight_decay;
  int64_t step;
  double gradient_scale;
};
inline constexpr double kAdafactorRoot = 0x1p-23;  // ε1: its square is the least second moment
inline constexpr double kAdafactorScale = 1e-3;    // ε2: least root mean square of the weights

/// As PyTorch's Adafactor. With t the step, s = t^-0.8, RMS the root mean square over the parameter, and V the second moments:
/// α = max(ε2, RMS(w))·min(lr, 1/√t);  w -= lr·wd·w;  u = g / √max(V, ε1²);
/// w -= α / max(1, RMS(u)) · u.  Source: Shazeer & Stern 2018, arXiv:1804.04235, algorithms 4 and 5 with the constants there.
/// A matrix keeps means of g²: r (rows), one for each row, and c (columns), one for each column. Each step
/// r += s·(the row's mean of g² − r), and c likewise;  V = r·c / max(mean(r), ε1).  `means` (rows + columns) is overwritten. g becomes zero.
/// Order   sums in doubles: along rows, columns and blocks of rows in ascending order; threads change no bit.
void adafactor_matrix_step(const AdafactorStep&, int64_t rows, int64_t columns, std::span<float> gradient,
                           std::span<float> weight, std::span<float> row, std::span<float> column,
                           std::span<float> means, std::span<bf16> compute);
/// A vector keeps V itself: V += s·(g² − V).
void adafactor_vector_step(const AdafactorStep&, std::span<float> gradient, std::span<float> weight,
                           std::span<float> second, std::span<bf16> compute);

}  // namespace tern
