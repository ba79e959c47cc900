#include <algorithm>
#include <tuple>

#include "program/pipeline_order.h"

namespace tern {
namespace {

// What the greedy may choose; all eight combinations are tried.
struct Setting {
  bool wait_before_first_backward;  // fill beyond the first backward's arrival
  bool prefer_backward;             // leave a forward out when it would hold up the next backward
  bool fill_small_gaps;             // put a weight gradient also into a gap smaller than the bubble allowed
};

// Places operations one after another at the end of each device's list and keeps all clocks, the links' too: the times
// are those that run_pipeline finds for the order.
struct Greedy {
  const PipelineShape& shape;
  const PipelineTimes& times;
  Setting setting;
  int stages = shape.num_virtual_stages(), micros = shape.num_micro;
  PipelineOrder order = PipelineOrder(stages);
  std::vector<int64_t> clock = times.begin, bubble = std::vector<int64_t>(stages, 0);
  int64_t worst_bubble = 0;
  std::vector<int> f = std::vector<int>(stages, 0), b = f, w = f;  // placed so far
  // When a stage's input is there, by stage and micro-batch; and when each link is free again.
  std::vector<int64_t> forward_input = std::vector<int64_t>(static_cast<size_t>(stages) * micros, 0),
                       backward_input = forward_input;
  std::vector<int64_t> link_forward = bubble, link_backward = bubble;

  ZeroBubbleCaps caps(int i) const { return zero_bubble_caps(shape.schedule, stages, i); }
  bool fits_in_flight(int i, int more) const { return f[i] - b[i] + more <= caps(i).in_flight; }
  bool fits(int i, int more) const { return fits_in_flight(i, more) && f[i] - w[i] + more <= caps(i).total; }

  int64_t& forward_arrival(int i, int m) { return forward_input[static_cast<size_t>(i) * micros + m]; }
  int64_t& backward_arrival(int i, int m) { return backward_input[static_cast<size_t>(i) * micros + m]; }

  int64_t place(int i, Phase phase, int micro, int64_t arrival, int64_t cost) {
    const int64_t start = std::max(clock[i], arrival);
    if (!order[i].empty()) worst_bubble = std::max(worst_bubble, bubble[i] += start - clock[i]);
    order[i].push_back({phase, i, micro});
    return clock[i] = start + cost;
  }
  void forward(int i) {
    const int m = f[i]++;
    const int64_t end = place(i, Phase::forward, m, forward_arrival(i, m), times.forward[i]);
    if (i + 1 < stages)
      forward_arrival(i + 1, m) = link_forward[i] = std::max(end, link_forward[i]) + times.send_forward[i];
  }
  void backward(int i) {
    const int m = b[i]++;
    const int64_t end = place(i, Phase::backward, m, backward_arrival(i, m), times.backward[i]);
    if (i > 0)
      backward_arrival(i - 1, m) = link_backward[i] = std::max(end, link_backward[i]) + times.send_backward[i - 1];
  }
  void weight(int i) {
    place(i, Phase::weight, w[i], 0, times.weight[i]);
    ++w[i];
  }
  bool weight_waits(int i) const { return w[i] < b[i]; }

  // Weight gradients while the next input is on its way.
  void fill_gap(int i, int64_t arrival) {
    while (weight_waits(i) && clock[i] + times.weight[i] <= arrival) weight(i);
    if (!weight_waits(i) || clock[i] >= arrival) return;
    if (arrival - clock[i] > worst_bubble - bubble[i] || setting.fill_small_gaps) weight(i);
  }

  // One forward everywhere; then as many more as fit before the first backward's gradient arrives, fewer on each stage
  // than on the one before it.
  void fill() {
    for (int i = 0; i < stages; ++i) forward(i);
    std::vector<int> more(stages, 0);
    int64_t arrival = 0;
    for (int i = stages - 1; i >= 0; --i) {
      int64_t busy = clock[i];
      while (1 + more[i] < micros && fits(i, more[i] + 1)) {
        const bool late = i + 1 == stages || busy + times.forward[i] > arrival;
        if (late && !(setting.wait_before_first_backward && busy < arrival)) break;
        busy += times.forward[i];
        ++more[i];
      }
      arrival = std::max(busy, arrival) + times.backward[i] + (i > 0 ? times.send_backward[i - 1] : 0);
    }
    for (int i = 1; i < stages; ++i)
      more[i] = std::max(0, std::min(more[i], 1 + more[i - 1] == micros ? more[i - 1] : more[i - 1] - 1));
    for (int i = 0; i < stages; ++i)
      for (int k = 0; k < more[i]; ++k) forward(i);
  }

  // Whether stage i had better not run a forward now: it would delay the backward that its successor is about to send.
  bool leave_out_forward(int i) const {
    if (!setting.prefer_backward || i + 1 == stages || f[i] < f[i + 1] + 2) return false;
    const int64_t next = clock[i + 1] + times.forward[i + 1] + times.backward[i + 1] + times.send_backward[i];
    if (clock[i] >= next) return true;
    const int pop = std::max(0, f[i] - w[i] + 1 - caps(i).total);
    if (clock[i] + times.forward[i] + pop * times.weight[i] <= next) return false;
    return next - clock[i] <= worst_bubble - bubble[i];
  }

  void forwards() {
    std::vector<char> wanted(stages, 0);
    for (int i = 0; i < stages; ++i) wanted[i] = f[i] < micros && !leave_out_forward(i);
    for (int i = stages - 2; i >= 0; --i) wanted[i] = wanted[i] && (wanted[i + 1] || f[i + 1] == micros);
    for (int i = 0; i < stages; ++i) {
      if (!wanted[i] || !fits_in_flight(i, 1) || (i > 0 && f[i] >= f[i - 1])) continue;
      while (!fits(i, 1)) weight(i);
      if (i > 0) fill_gap(i, forward_arrival(i, f[i]));
      forward(i);
    }
  }

  void backwards(int m) {
    for (int i = stages - 1; i >= 0; --i) {
      if (f[i] <= m) forward_up_to(i, m);
      if (i + 1 < stages) fill_gap(i, backward_arrival(i, m));
      if (i == 0 && f[0] == micros)
        while (weight_waits(0)) weight(0);
      backward(i);
    }
  }

  // A stage whose forward of this micro-batch was left out catches up, and with it those before it.
  void forward_up_to(int i, int m) {
    if (i > 0 && f[i - 1] <= m) forward_up_to(i - 1, m);
    while (!fits(i, 1) && weight_waits(i)) weight(i);
    while (f[i] <= m) forward(i);
  }

  // Least makespan, then least bubble of the worst device, then of all.
  using Key = std::tuple<int64_t, int64_t, int64_t>;
  Key run() {
    for (auto& ops : order) ops.reserve(3 * static_cast<size_t>(micros));
    fill();
    for (int m = 0; m < micros; ++m) {
      if (m > 0) forwards();
      backwards(m);
    }
    int64_t makespan = 0, sum = 0;
    for (int i = 0; i < stages; ++i) {
      while (w[i] < micros) weight(i);
      makespan = std::max(makespan, clock[i] + times.tail[i]);
      sum += bubble[i];
    }
    return {makespan, worst_bubble, sum};
  }
};

}  // namespace

ZeroBubbleCaps zero_bubble_caps(PipelineSchedule schedule, int num_stages, int stage) {
  if (schedule == PipelineSchedule::zb_h1) return {num_stages - stage, num_stages};
  return {2 * (num_stages - stage) - 1, 2 * num_stages - 1};
}

namespace {

// ZB-H1 and ZB-H2 by the greedy of Qi et al.: eight settings, the least makespan, then the least bubble.
PipelineOrder zero_bubble_order(const PipelineShape& shape, const PipelineTimes& times) {
  PipelineOrder best;
  Greedy::Key best_key;
  for (int k = 0; k < 8; ++k) {
    Greedy greedy{shape, times, {(k & 1) != 0, (k & 2) != 0, (k & 4) != 0}};
    const Greedy::Key key = greedy.run();
    if (best.empty() || key < best_key) {
      best = std::move(greedy.order);
      best_key = key;
    }
  }
  return best;
}

}  // namespace

PipelineOrder zb_h1_order(const PipelineShape& shape, const PipelineTimes& times) {
  return zero_bubble_order(shape, times);
}
PipelineOrder zb_h2_order(const PipelineShape& shape, const PipelineTimes& times) {
  return zero_bubble_order(shape, times);
}

}  // namespace tern
