#include <algorithm>
#include <optional>

#include "program/pipeline_order.h"

namespace tern {
namespace {

// Rank r of n: forwards of chunk 0, then both chunks' forwards in turn, then chunk 1 through forward and backward; a
// steady phase of full backwards of either chunk; a drain whose weight gradients come late.
PipelineOrder pattern(const PipelineShape& shape) {
  const int n = shape.num_devices, micros = std::max(shape.num_micro, 2 * n - 1);
  PipelineOrder order(n);
  for (int r = 0; r < n; ++r) {
    const int stage[2] = {r, 2 * n - 1 - r};
    int f[2] = {0, 0}, b[2] = {0, 0}, w[2] = {0, 0};
    const auto put = [&](Phase phase, int c, int& count) {
      if (count < shape.num_micro) order[r].push_back({phase, stage[c], count});
      ++count;
    };
    const auto forward = [&](int c) { put(Phase::forward, c, f[c]); };
    const auto backward = [&](int c) { put(Phase::backward, c, b[c]); };
    const auto weight = [&](int c) { put(Phase::weight, c, w[c]); };
    const auto full_backward = [&](int c) { backward(c), weight(c); };

    for (int k = 0; k < 2 * (n - r) - 1; ++k) forward(0);
    for (int k = 0; k < r; ++k) forward(1), forward(0);
    for (int k = 0; k < n - r; ++k) forward(1), full_backward(1);
    while (f[1] < f[0] || f[0] < micros) {
      if (f[0] < micros) forward(0);
      full_backward(0);
      forward(1);
      full_backward(1);
    }
    for (int k = 0; k < r; ++k) backward(0), backward(1);
    for (int k = 0; k < n - r; ++k) backward(0), weight(0);
    while (w[1] < b[1]) weight(1);
    while (w[0] < b[0]) weight(0);
  }
  return order;
}

// The order again with its weight gradients late: forwards and backwards as they stand, on clocks with the usual
// proportions of their times; a weight gradient where a device would wait long enough for one, or does not know how
// long it will wait, or where it must let go of a chunk before it may take another. Too few micro-batches to fill the
// pattern leave such waits everywhere.
struct LateWeights {
  static constexpr int64_t kForward = 10, kBackward = 13, kWeight = 9;
  const PipelineShape& shape;
  const PipelineOrder& given;
  int devices = shape.num_devices, stages = shape.num_virtual_stages(), micros = shape.num_micro, cap = 2 * devices;
  PipelineOrder order = PipelineOrder(devices);
  std::vector<std::vector<PipelineOp>> line = PipelineOrder(devices), weights = line;  // to do; weights as they come up
  std::vector<size_t> next = std::vector<size_t>(devices, 0), released = next;
  std::vector<int64_t> clock = std::vector<int64_t>(devices, 0);
  std::vector<int> held = std::vector<int>(devices, 0);  // chunks from forward to weight gradient
  std::vector<int64_t> input = std::vector<int64_t>(2 * static_cast<size_t>(stages) * micros, -1);  // −1: not known yet

  int64_t& input_of(const PipelineOp& op) {
    return input[(op.phase == Phase::forward ? 0 : static_cast<size_t>(stages) * micros) +
                 static_cast<size_t>(op.stage) * micros + op.micro];
  }

  struct Choice {
    int64_t start;
    bool weight;
  };
  std::optional<Choice> choice(int d) {
    const bool weight = released[d] < weights[d].size();
    if (next[d] < line[d].size()) {
      const PipelineOp& op = line[d][next[d]];
      const int64_t at = input_of(op);
      const bool full = op.phase == Phase::forward && held[d] == cap;
      if (at >= 0 && !full && !(weight && at >= clock[d] + kWeight)) return Choice{std::max(clock[d], at), false};
    }
    if (weight) return Choice{clock[d], true};
    return std::nullopt;
  }

  void run(int d, const Choice& c) {
    const PipelineOp op = c.weight ? weights[d][released[d]++] : line[d][next[d]++];
    order[d].push_back(op);
    if (c.weight) {
      clock[d] += kWeight;
      --held[d];
      return;
    }
    const bool forward = op.phase == Phase::forward;
    clock[d] = c.start + (forward ? kForward : kBackward);
    if (forward)
      ++held[d];
    else
      weights[d].push_back({Phase::weight, op.stage, op.micro});
    const int to = op.stage + (forward ? 1 : -1);
    if (to == stages)
      input_of({Phase::backward, op.stage, op.micro}) = clock[d];
    else if (to >= 0)
      input_of({op.phase, to, op.micro}) = clock[d];
  }

  PipelineOrder run() {
    for (int d = 0; d < devices; ++d)
      std::copy_if(given[d].begin(), given[d].end(), std::back_inserter(line[d]),
                   [](const PipelineOp& op) { return op.phase != Phase::weight; });
    for (int m = 0; m < micros; ++m) input_of({Phase::forward, 0, m}) = 0;
    for (size_t left = 3 * static_cast<size_t>(stages) * micros; left > 0; --left) {
      int first = -1;
      Choice best{};
      for (int d = 0; d < devices; ++d)
        if (const auto c = choice(d); c && (first < 0 || c->start < best.start)) {
          first = d;
          best = *c;
        }
      run(first, best);
    }
    return std::move(order);
  }
};

}  // namespace

// Two chunks in a V, four phases by rank. num_micro < 2P − 1: the order of 2P − 1 without the superfluous ones, its weight
// gradients moved into the gaps that they leave.
PipelineOrder zb_v_order(const PipelineShape& shape, const PipelineTimes&) {
  const PipelineOrder order = pattern(shape);
  return shape.num_micro < 2 * shape.num_devices - 1 ? LateWeights{shape, order}.run() : order;
}

}  // namespace tern
