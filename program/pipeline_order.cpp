#include "program/pipeline_order.h"

#include <algorithm>

#include "base/error.h"
#include "plan/legality.h"

namespace tern {
namespace {

void forward(std::vector<PipelineOp>& ops, int stage, int micro) { ops.push_back({Phase::forward, stage, micro}); }
void backward(std::vector<PipelineOp>& ops, int stage, int micro) { ops.push_back({Phase::backward, stage, micro}); }

PipelineOrder gpipe(int num_stages, int num_micro) {
  PipelineOrder order(num_stages);
  for (int s = 0; s < num_stages; ++s) {
    for (int m = 0; m < num_micro; ++m) forward(order[s], s, m);
    for (int m = 0; m < num_micro; ++m) backward(order[s], s, m);
  }
  return order;
}

// Fill, steady pairs, drain. depth(i): micro-batches in flight at stage i: P − i in plain 1F1B; 2(P − i) − 1 in the
// deep one, whose forwards run ahead far enough that a transfer has a whole pair of operations to hide behind.
template <class Depth>
PipelineOrder one_f_one_b(int num_stages, int num_micro, Depth depth) {
  PipelineOrder order(num_stages);
  for (int s = 0; s < num_stages; ++s) {
    const int fill = std::min(num_micro, depth(s)) - 1;
    for (int m = 0; m < fill; ++m) forward(order[s], s, m);
    for (int m = fill; m < num_micro; ++m) {
      forward(order[s], s, m);
      backward(order[s], s, m - fill);
    }
    for (int m = num_micro - fill; m < num_micro; ++m) backward(order[s], s, m);
  }
  return order;
}

// Micro-batches go in groups of P; in each group chunk after chunk forwards, the last chunk first backwards.
PipelineOrder interleaved(int num_devices, int chunks, int num_micro) {
  const int total = num_micro * chunks;
  PipelineOrder order(num_devices);
  for (int d = 0; d < num_devices; ++d) {
    const auto micro = [&](int k) { return k / (num_devices * chunks) * num_devices + k % num_devices; };
    const auto chunk = [&](int k) { return k % (num_devices * chunks) / num_devices; };
    const auto f = [&](int k) { forward(order[d], chunk(k) * num_devices + d, micro(k)); };
    const auto b = [&](int k) { backward(order[d], (chunks - 1 - chunk(k)) * num_devices + d, micro(k)); };
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

void check_shape(const PipelineShape& shape) {
  if (shape.num_devices < 1 || shape.chunks_per_device < 1 || shape.num_micro < 1)
    throw Error(
        ErrorKind::usage,
        "pipeline: {} stages, {} chunks on each, {} micro-batches; each is at least 1: ask for one of each or more",
        shape.num_devices, shape.chunks_per_device, shape.num_micro);
  if (const std::string why =
          why_illegal_schedule(shape.schedule, shape.num_devices, shape.chunks_per_device, shape.num_micro);
      !why.empty())
    throw Error(ErrorKind::usage, "pipeline: {}", why);
}

}  // namespace

int device_of(const PipelineShape& shape, int stage) {
  if (is_v_shaped(shape.schedule)) return stage < shape.num_devices ? stage : 2 * shape.num_devices - 1 - stage;
  return stage % shape.num_devices;
}

PipelineOrder pipeline_order(const PipelineShape& shape, const PipelineTimes& times) {
  check_shape(shape);
  const int p = shape.num_devices, m = shape.num_micro;
  switch (shape.schedule) {
    case PipelineSchedule::gpipe:
      return gpipe(p, m);
    case PipelineSchedule::one_f_one_b:
      return one_f_one_b(p, m, [p](int s) { return p - s; });
    case PipelineSchedule::deep_one_f_one_b:
      return one_f_one_b(p, m, [p](int s) { return 2 * (p - s) - 1; });
    case PipelineSchedule::interleaved:
      return interleaved(p, shape.chunks_per_device, m);
    case PipelineSchedule::zb_h1:
    case PipelineSchedule::zb_h2:
      return zero_bubble_order(shape, times);
    case PipelineSchedule::zb_v:
      return zero_bubble_v_order(shape);
    case PipelineSchedule::v_half:
      return v_half_order(shape);
  }
  TERN_CHECK(false, "pipeline: schedule {}", static_cast<int>(shape.schedule));
  return {};
}

}  // namespace tern
