// 1F1B, and the deep one.
#include <algorithm>

#include "program/pipeline_order.h"

namespace tern {
namespace {

// Fill, steady pairs, drain. depth(i): micro-batches in flight at stage i: P − i in plain 1F1B; 2(P − i) − 1 in the
// deep one, whose forwards run ahead far enough that a transfer has a whole pair of operations to hide behind.
template <class Depth>
PipelineOrder one_f_one_b(int num_stages, int num_micro, Depth depth) {
  PipelineOrder order(num_stages);
  for (int s = 0; s < num_stages; ++s) {
    const int fill = std::min(num_micro, depth(s)) - 1;
    for (int m = 0; m < fill; ++m) add_forward(order[s], s, m);
    for (int m = fill; m < num_micro; ++m) {
      add_forward(order[s], s, m);
      add_backward(order[s], s, m - fill);
    }
    for (int m = num_micro - fill; m < num_micro; ++m) add_backward(order[s], s, m);
  }
  return order;
}

}  // namespace

PipelineOrder one_f_one_b_order(const PipelineShape& shape, const PipelineTimes&) {
  const int p = shape.num_devices;
  return one_f_one_b(p, shape.num_micro, [p](int s) { return p - s; });
}

PipelineOrder deep_one_f_one_b_order(const PipelineShape& shape, const PipelineTimes&) {
  const int p = shape.num_devices;
  return one_f_one_b(p, shape.num_micro, [p](int s) { return 2 * (p - s) - 1; });
}

}  // namespace tern
