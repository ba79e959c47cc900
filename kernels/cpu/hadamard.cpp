#include "kernels/cpu/hadamard.h"

#include <bit>
#include <cmath>
#include <type_traits>
#include <vector>

#include "base/dtype.h"

namespace tern {
namespace {

template <class T>
using SumOf = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T>
SumOf<T> widened(T x) {
  if constexpr (std::is_same_v<T, bf16>)
    return to_float(x);
  else
    return x;
}

// Sums and differences of numbers `half` apart, for half = 1, 2, 4 … b/2.
template <class S>
void butterflies(S* x, int64_t b) {
  for (int64_t half = 1; half < b; half *= 2)
    for (int64_t begin = 0; begin < b; begin += 2 * half)
      for (int64_t i = begin; i < begin + half; ++i) {
        const S sum = x[i] + x[i + half], difference = x[i] - x[i + half];
        x[i] = sum, x[i + half] = difference;
      }
}

}  // namespace

float hadamard_sign(int64_t i) {
  return std::popcount(static_cast<uint64_t>(i + 1) * 0x9e3779b97f4a7c15u) % 2 == 0 ? 1.0f : -1.0f;
}

template <class T>
void hadamard_turn(T* x, int64_t rows, int64_t stride, int64_t heads, int64_t width, bool inverse) {
  using S = SumOf<T>;
  const int64_t b = hadamard_block(width);
  if (b == 1) return;
  std::vector<S> signs(static_cast<size_t>(b));
  for (int64_t i = 0; i < b; ++i) signs[static_cast<size_t>(i)] = static_cast<S>(hadamard_sign(i));
  const S scale = static_cast<S>(1 / std::sqrt(static_cast<double>(b)));
#pragma omp parallel if (rows * heads * width > 1 << 15)
  {
    std::vector<S> mixed(static_cast<size_t>(b));
#pragma omp for schedule(static)
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t begin = 0; begin < heads * width; begin += b) {
        T* at = x + r * stride + begin;
        for (size_t i = 0; i < mixed.size(); ++i) mixed[i] = inverse ? widened(at[i]) : signs[i] * widened(at[i]);
        butterflies(mixed.data(), b);
        for (size_t i = 0; i < mixed.size(); ++i) {
          const S turned = mixed[i] * (inverse ? scale * signs[i] : scale);
          if constexpr (std::is_same_v<T, bf16>)
            at[i] = to_bf16(turned);
          else
            at[i] = turned;
        }
      }
  }
}

template void hadamard_turn(float*, int64_t, int64_t, int64_t, int64_t, bool);
template void hadamard_turn(bf16*, int64_t, int64_t, int64_t, int64_t, bool);
template void hadamard_turn(double*, int64_t, int64_t, int64_t, int64_t, bool);

}  // namespace tern
