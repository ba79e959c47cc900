#include "kernels/cpu/attention_sinks.h"

#include <cmath>
#include <type_traits>

#include "base/dtype.h"

namespace tern {
namespace {

template <class T>
double as_double(T x) {
  if constexpr (std::is_same_v<T, bf16>)
    return static_cast<double>(to_float(x));
  else
    return static_cast<double>(x);
}
template <class T>
T rounded_to(double x) {
  if constexpr (std::is_same_v<T, bf16>)
    return to_bf16(static_cast<float>(x));
  else
    return static_cast<T>(x);
}

// log(e^a + e^b); a is finite.
double log_of_sum(double a, double b) {
  const double most = a > b ? a : b, least = a > b ? b : a;
  return most + std::log1p(std::exp(least - most));
}

}  // namespace

template <class T, class S>
void apply_sinks(const S* sinks, int64_t rows, int64_t heads, int64_t head_dim, int64_t out_stride, T* out, S* lse) {
#pragma omp parallel for schedule(static) if (rows * heads * head_dim > 1 << 15)
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t h = 0; h < heads; ++h) {
      S& of = lse[r * heads + h];
      const double all = log_of_sum(as_double(of), as_double(sinks[h])), share = std::exp(as_double(of) - all);
      T* at = out + r * out_stride + h * head_dim;
      for (int64_t d = 0; d < head_dim; ++d) at[d] = rounded_to<T>(as_double(at[d]) * share);
      of = static_cast<S>(all);
    }
}

template <class T, class S>
void sinks_backward(const S* sinks, int64_t rows, int64_t heads, int64_t head_dim, int64_t out_stride, const T* out,
                    const T* dout, const S* lse, S* dsinks) {
  for (int64_t h = 0; h < heads; ++h) {
    double sum = 0;
    for (int64_t r = 0; r < rows; ++r) {
      double product = 0;
      const int64_t at = r * out_stride + h * head_dim;
      for (int64_t d = 0; d < head_dim; ++d) product += as_double(out[at + d]) * as_double(dout[at + d]);
      sum -= std::exp(as_double(sinks[h]) - as_double(lse[r * heads + h])) * product;
    }
    dsinks[h] = static_cast<S>(as_double(dsinks[h]) + sum);
  }
}

#define TERN_SINKS(T, S)                                                           \
  template void apply_sinks(const S*, int64_t, int64_t, int64_t, int64_t, T*, S*); \
  template void sinks_backward(const S*, int64_t, int64_t, int64_t, int64_t, const T*, const T*, const S*, S*);
TERN_SINKS(float, float)
TERN_SINKS(bf16, float)
TERN_SINKS(double, double)
#undef TERN_SINKS

}  // namespace tern
