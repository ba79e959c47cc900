// The zero-bubble greedy against every order there is, on cases small enough to try them all.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

#include "program/pipeline_order.h"
#include "program/pipeline_run.h"

namespace tern {
namespace {

using Sequences = std::vector<std::vector<PipelineOp>>;

// All orders of one stage that keep its caps, micro-batches in turn.
void extend(const ZeroBubbleCaps& caps, int stage, int micros, std::array<int, 3> done, std::vector<PipelineOp>& now,
            Sequences& all) {
  const auto [f, b, w] = done;
  if (w == micros) return all.push_back(now);
  const auto try_next = [&](Phase phase, bool may) {
    if (!may) return;
    std::array<int, 3> next = done;
    now.push_back({phase, stage, next[static_cast<int>(phase)]++});
    extend(caps, stage, micros, next, now, all);
    now.pop_back();
  };
  try_next(Phase::forward, f < micros && f - b < caps.in_flight && f - w < caps.total);
  try_next(Phase::backward, b < f);
  try_next(Phase::weight, w < b);
}

// The makespan of one choice of sequences; −1 on a deadlock.
int64_t makespan(const PipelineShape& shape, const PipelineTimes& t,
                 const std::vector<const std::vector<PipelineOp>*>& order) {
  const int p = shape.num_devices, m = shape.num_micro;
  std::vector<std::vector<int64_t>> forward_input(p, std::vector<int64_t>(m, -1)),
      backward_input(p, std::vector<int64_t>(m, -1));
  std::fill(forward_input[0].begin(), forward_input[0].end(), 0);
  std::vector<size_t> next(p, 0);
  std::vector<int64_t> clock(p, 0), link_forward(p, 0), link_backward(p, 0);
  size_t left = 3 * static_cast<size_t>(p) * m;
  for (bool moved = true; moved && left > 0;) {
    moved = false;
    for (int d = 0; d < p; ++d)
      for (; next[d] < order[d]->size(); ++next[d], --left, moved = true) {
        const PipelineOp& op = (*order[d])[next[d]];
        int64_t input = 0;
        if (op.phase == Phase::forward) input = forward_input[d][op.micro];
        if (op.phase == Phase::backward && d + 1 < p) input = backward_input[d][op.micro];
        if (input < 0) break;
        const std::vector<int64_t>& cost = op.phase == Phase::forward    ? t.forward
                                           : op.phase == Phase::backward ? t.backward
                                                                         : t.weight;
        const int64_t end = clock[d] = std::max(clock[d], input) + cost[d];
        if (op.phase == Phase::forward && d + 1 < p)
          forward_input[d + 1][op.micro] = link_forward[d] = std::max(link_forward[d], end) + t.send_forward[d];
        if (op.phase == Phase::backward && d > 0)
          backward_input[d - 1][op.micro] = link_backward[d] = std::max(link_backward[d], end) + t.send_backward[d - 1];
      }
  }
  return left > 0 ? -1 : *std::max_element(clock.begin(), clock.end());
}

int64_t least_makespan(const PipelineShape& shape, const PipelineTimes& t) {
  const int p = shape.num_devices;
  std::vector<Sequences> all(p);
  for (int i = 0; i < p; ++i) {
    std::vector<PipelineOp> now;
    extend(zero_bubble_caps(shape.schedule, p, i), i, shape.num_micro, {0, 0, 0}, now, all[i]);
  }
  int64_t best = INT64_MAX;
  std::vector<size_t> at(p, 0);
  std::vector<const std::vector<PipelineOp>*> order(p);
  for (int d = 0; d < p;) {
    for (int i = 0; i < p; ++i) order[i] = &all[i][at[i]];
    if (const int64_t got = makespan(shape, t, order); got >= 0) best = std::min(best, got);
    for (d = 0; d < p && ++at[d] == all[d].size(); ++d) at[d] = 0;
  }
  return best;
}

TEST(ZeroBubbleGreedy, FindsTheBestOrderOfNearlyAllSmallCases) {
  std::mt19937_64 random(2401);
  const auto list = [&](int n, int64_t low, int64_t high) {
    std::vector<int64_t> v(n);
    for (int64_t& x : v) x = low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
    return v;
  };
  int cases = 0, best = 0;
  for (const PipelineSchedule s : {PipelineSchedule::zb_h1, PipelineSchedule::zb_h2})
    for (const auto& [p, m, times] : {std::array{2, 2, 60}, {2, 3, 60}, {3, 2, 60}, {2, 4, 10}, {3, 3, 10}})
      for (int k = 0; k < times; ++k, ++cases) {
        const PipelineShape shape{s, p, 1, m};
        const int64_t send = k % 2 * 60;
        const PipelineTimes t{list(p, 50, 150),          list(p, 50, 250),     list(p, 50, 150),
                              list(p - 1, 0, send),      list(p - 1, 0, send), std::vector<int64_t>(p, 0),
                              std::vector<int64_t>(p, 0)};
        const int64_t got = run_pipeline(shape, pipeline_order(shape, t), t).makespan, want = least_makespan(shape, t);
        ASSERT_GE(got, want) << name_of(s) << " p " << p << " m " << m << " case " << k;
        EXPECT_LE(got * 100, want * 105) << name_of(s) << " p " << p << " m " << m << " case " << k;
        best += got == want;
      }
  EXPECT_GE(best * 100, cases * 95) << best << " of " << cases;
}

}  // namespace
}  // namespace tern
