#include "kernels/ref/rope_ref.h"

namespace tern {

// Each pair (a, b) = (x_i, x_{i+half}) turns by the angle t of its position: (a cos t - b sin t, b cos t + a sin t).
// A rotation's transpose is its inverse, so the backward is the forward with -t.
void rope_ref(const RopeShape& shape, std::span<const int32_t> positions, std::span<const double> cos,
              std::span<const double> sin, bool inverse, double* x) {
  const int64_t half = shape.rotary_dim / 2;
  for (int64_t row = 0; row < shape.rows; ++row)
    for (int64_t head = 0; head < shape.heads; ++head)
      for (int64_t i = 0; i < half; ++i) {
        const auto at = static_cast<size_t>(positions[static_cast<size_t>(row)] * half + i);
        const double c = cos[at], s = inverse ? -sin[at] : sin[at];
        double& a = x[row * shape.row_stride + head * shape.head_dim + i];
        double& b = x[row * shape.row_stride + head * shape.head_dim + half + i];
        const double turned_a = a * c - b * s, turned_b = b * c + a * s;
        a = turned_a;
        b = turned_b;
      }
}

}  // namespace tern
