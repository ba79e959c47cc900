#include "update/async_rule.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "kernels/cpu/parallel.h"

namespace tern {
namespace {

template <class T>
void apply(const AsyncStep& s, std::span<const T> g, std::span<T> w, std::span<T> u) {
  const auto momentum = static_cast<T>(s.momentum), to_u = static_cast<T>(s.into_momentum),
             to_w = static_cast<T>(s.into_weights);
  parallel_ranges(std::ssize(w), kParallelGrain, 1, [&](int64_t first, int64_t last) {
    const auto begin = static_cast<size_t>(first), end = static_cast<size_t>(last);
    if (u.empty()) {
      for (size_t i = begin; i < end; ++i) w[i] -= to_w * g[i];
      return;
    }
    if (s.turns)
      for (size_t i = begin; i < end; ++i) {
        u[i] = momentum * u[i];
        w[i] -= u[i];
      }
    for (size_t i = begin; i < end; ++i) {
      u[i] += to_u * g[i];
      w[i] -= to_w * g[i];
    }
  });
}

}  // namespace

AsyncStep take_receipt(const AsyncConfig& c, AsyncClock& clock, int64_t index, double rate) {
  TERN_CHECK(index >= 0 && index <= clock.receipts, "async: a gradient of index {} at receipt {}", index,
             clock.receipts);
  AsyncStep s{.momentum = c.momentum, .delay = clock.receipts - index};
  ++clock.receipts;
  switch (c.rule) {
    case AsyncRule::asgd:
      s.into_weights = rate;
      return s;
    case AsyncRule::momentum:
      s.turns = true, s.into_momentum = s.into_weights = rate;
      return s;
    case AsyncRule::ormo_da:
      if (s.delay > 2 * c.workers) rate *= 2.0 * c.workers / static_cast<double>(s.delay);
      break;
    case AsyncRule::ormo:
      break;
  }
  const int64_t bucket = (index + c.workers - 1) / c.workers;
  TERN_CHECK(bucket <= clock.bucket + 1, "async: bucket {} after {}", bucket, clock.bucket);
  if (bucket > clock.bucket) s.turns = true, ++clock.bucket;
  const auto late = static_cast<double>(clock.bucket - bucket);
  s.into_momentum = std::pow(c.momentum, late) * rate;
  s.into_weights = (1 - std::pow(c.momentum, late + 1)) / (1 - c.momentum) * rate;
  return s;
}

void apply_receipt(const AsyncStep& s, const Tensor& g, const Tensor& w, const Tensor& u) {
  TERN_CHECK(g.count() == w.count() && (u.empty() || u.count() == w.count()), "async: a gradient of {}, weights of {}",
             g.count(), w.count());
  if (w.dtype() == DType::f64)
    apply<double>(s, g.span<double>(), w.span<double>(), u.empty() ? std::span<double>() : u.span<double>());
  else
    apply<float>(s, g.span<float>(), w.span<float>(), u.empty() ? std::span<float>() : u.span<float>());
}

}  // namespace tern
