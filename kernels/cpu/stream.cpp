#include "kernels/cpu/stream.h"

#include <omp.h>

#include <algorithm>
#include <vector>

#include "kernels/cpu/stream_table.h"
#include "kernels/dispatch.h"

namespace tern {

float stream_sum(std::span<const float> x) {
  const auto sum = TERN_TABLE_OF(stream_table, active_isa()).sum;
  const auto size = static_cast<int64_t>(x.size());
  std::vector<float> parts(static_cast<size_t>(omp_get_max_threads()), 0.0f);
#pragma omp parallel
  {
    const int64_t threads = omp_get_num_threads(), me = omp_get_thread_num();
    const int64_t share = (size / threads + 15) / 16 * 16;
    const int64_t begin = std::min(size, me * share), end = me + 1 == threads ? size : std::min(size, begin + share);
    parts[static_cast<size_t>(me)] = sum(end - begin, x.data() + begin);
  }
  float total = 0;
  for (const float part : parts) total += part;
  return total;
}

float stream_sum_again(std::span<const float> x, int times) {
  const auto sum = TERN_TABLE_OF(stream_table, active_isa()).sum;
  float total = 0;
  for (int i = 0; i < times; ++i) total += sum(static_cast<int64_t>(x.size()), x.data());
  return total;
}

}  // namespace tern
