#include "kernels/cpu/softcap.h"

#include <cmath>

#include "base/error.h"
#include "kernels/cpu/parallel.h"

namespace tern {

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

template void softcap_elements<float>(double, std::span<float>);
template void softcap_elements<double>(double, std::span<double>);
template void softcap_gradients<float>(double, std::span<const float>, std::span<float>);
template void softcap_gradients<double>(double, std::span<const double>, std::span<double>);

}  // namespace tern
