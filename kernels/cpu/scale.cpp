#include "kernels/cpu/scale.h"

#include <cmath>
#include <type_traits>

#include "base/dtype.h"
#include "base/error.h"
#include "kernels/cpu/parallel.h"

namespace tern {

template <class T>
void scale_elements(double factor, std::span<T> y) {
  parallel_ranges(static_cast<int64_t>(y.size()), kParallelGrain, 64, [&](int64_t begin, int64_t end) {
    const auto f = static_cast<float>(factor);
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      if constexpr (std::is_same_v<T, bf16>)
        y[i] = to_bf16(f * to_float(y[i]));
      else
        y[i] = static_cast<T>(std::is_same_v<T, double> ? factor : static_cast<double>(f)) * y[i];
    }
  });
}

template <class T>
void softcap_elements(double cap, std::span<T> y) {
  const T c = static_cast<T>(cap);
  parallel_ranges(static_cast<int64_t>(y.size()), kParallelGrain / 8, 64, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) y[i] = c * std::tanh(y[i] / c);
  });
}

template <class T>
void softcap_gradients(double cap, std::span<const T> y, std::span<T> d) {
  TERN_CHECK(y.size() == d.size(), "softcap_gradients: {} elements and {}", y.size(), d.size());
  const T inverse = static_cast<T>(1 / cap);
  parallel_ranges(static_cast<int64_t>(y.size()), kParallelGrain, 64, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      const T t = y[i] * inverse;
      d[i] *= 1 - t * t;
    }
  });
}

template void scale_elements<float>(double, std::span<float>);
template void scale_elements<bf16>(double, std::span<bf16>);
template void scale_elements<double>(double, std::span<double>);
template void softcap_elements<float>(double, std::span<float>);
template void softcap_elements<double>(double, std::span<double>);
template void softcap_gradients<float>(double, std::span<const float>, std::span<float>);
template void softcap_gradients<double>(double, std::span<const double>, std::span<double>);

}  // namespace tern
