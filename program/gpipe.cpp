// GPipe: all forwards, then all backwards.
#include "program/pipeline_order.h"

namespace tern {

PipelineOrder gpipe_order(const PipelineShape& shape, const PipelineTimes&) {
  PipelineOrder order(static_cast<size_t>(shape.num_devices));
  for (int s = 0; s < shape.num_devices; ++s) {
    std::vector<PipelineOp>& ops = order[static_cast<size_t>(s)];
    for (int m = 0; m < shape.num_micro; ++m) ops.push_back({Phase::forward, s, m});
    for (int m = 0; m < shape.num_micro; ++m) ops.push_back({Phase::backward, s, m});
  }
  return order;
}

}  // namespace tern
