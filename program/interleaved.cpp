// Interleaved 1F1B: several chunks of layers on each device, round robin.
#include <algorithm>

#include "program/pipeline_order.h"

namespace tern {

// Micro-batches go in groups of P; in each group chunk after chunk forwards, the last chunk first backwards.
PipelineOrder interleaved_order(const PipelineShape& shape, const PipelineTimes&) {
  const int num_devices = shape.num_devices, chunks = shape.chunks_per_device, num_micro = shape.num_micro;
  const int total = num_micro * chunks;
  PipelineOrder order(num_devices);
  for (int d = 0; d < num_devices; ++d) {
    const auto micro = [&](int k) { return k / (num_devices * chunks) * num_devices + k % num_devices; };
    const auto chunk = [&](int k) { return k % (num_devices * chunks) / num_devices; };
    const auto f = [&](int k) { add_forward(order[d], chunk(k) * num_devices + d, micro(k)); };
    const auto b = [&](int k) { add_backward(order[d], (chunks - 1 - chunk(k)) * num_devices + d, micro(k)); };
    const int fill = std::min(total, 2 * (num_devices - d - 1) + (chunks - 1) * num_devices);
    for (int k = 0; k < fill; ++k) f(k);
    for (int k = fill; k < total; ++k) {
      f(k);
      b(k - fill);
    }
    for (int k = total - fill; k < total; ++k) b(k);
  }
  return order;
}

}  // namespace tern
