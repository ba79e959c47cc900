#include "kernels/cpu/scale.h"

#include <type_traits>

#include "base/dtype.h"
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

template void scale_elements<float>(double, std::span<float>);
template void scale_elements<bf16>(double, std::span<bf16>);
template void scale_elements<double>(double, std::span<double>);

}  // namespace tern
