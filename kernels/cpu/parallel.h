#pragma once
// Splitting a loop over OpenMP's threads. Only for kernels whose elements do not depend on where a range begins or
// ends.

#include <omp.h>

#include <algorithm>
#include <cstdint>

#include "base/region_errors.h"

namespace tern {

/// Calls body(begin, end) on disjoint ranges that cover [0, count), each on one thread, none much smaller than `grain`.
/// Ranges begin at multiples of `unit`. Errors: the first that a body throws.
template <class Body>
void parallel_ranges(int64_t count, int64_t grain, int64_t unit, Body body) {
  const int64_t units = (count + unit - 1) / unit;
  const int64_t pieces =
      std::min({static_cast<int64_t>(omp_get_max_threads()), units, count / std::max<int64_t>(grain, 1)});
  if (pieces <= 1) {
    if (count > 0) body(int64_t{0}, count);
    return;
  }
  RegionErrors errors;
#pragma omp parallel num_threads(static_cast <int>(pieces))
  {
    const int64_t team = omp_get_num_threads(), member = omp_get_thread_num();
    const int64_t begin = std::min(count, units * member / team * unit);
    const int64_t end = std::min(count, units * (member + 1) / team * unit);
    if (begin < end) errors.guard([&] { body(begin, end); });
  }
  errors.rethrow();
}

/// How many elements repay waking a thread: about 10 µs of one core.
constexpr int64_t kParallelGrain = 32768;
/// How many rows of `width` elements repay waking a thread.
constexpr int64_t row_grain(int64_t width) {
  return std::max<int64_t>(1, kParallelGrain / std::max<int64_t>(width, 1));
}

}  // namespace tern
