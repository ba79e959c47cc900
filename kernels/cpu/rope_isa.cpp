#include "kernels/cpu/elementwise_impl.h"
#include "kernels/cpu/rope_kernel_table.h"

namespace tern::TERN_ISA_NAMESPACE {
namespace {

// (a, b) -> (a cos - b sin, b cos + a sin); the inverse has -sin.
template <class T>
void rope(const RopeShape& shape, const int32_t* positions, const float* cos, const float* sin, bool inverse, T* x) {
  const int64_t half = shape.rotary_dim / 2;
  const float sign = inverse ? -1.0f : 1.0f;
  for (int64_t row = 0; row < shape.rows; ++row) {
    const float* c = cos + positions[row] * half;
    const float* s = sin + positions[row] * half;
    for (int64_t head = 0; head < shape.heads; ++head) {
      T* low = x + row * shape.row_stride + head * shape.head_dim;
      T* high = low + half;
      for_each_lanes(half, [&](int64_t i, int64_t n) {
        const Vec a = load_some(low + i, n), b = load_some(high + i, n);
        const Vec cosine = load_some(c + i, n), sine = load_some(s + i, n) * sign;
        store_some(low + i, fma(a, cosine, -(b * sine)), n);
        store_some(high + i, fma(b, cosine, a * sine), n);
      });
    }
  }
}

}  // namespace

const RopeKernelTable rope_kernel_table = {rope<float>, rope<bf16>};

}  // namespace tern::TERN_ISA_NAMESPACE
