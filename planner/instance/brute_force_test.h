#pragma once
// The search's judge: every assignment of a small instance, priced one by one.

#include <functional>

#include "planner/instance/price.h"
#include "planner/instance/search.h"

namespace tern {

/// Schedules of one chunk to a stage, with a backward pass in one piece.
inline constexpr PipelineSchedule kPlainSchedules[] = {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b,
                                                       PipelineSchedule::deep_one_f_one_b};

inline void for_each_assignment(const Instance& in, const std::function<void(const Assignment&)>& visit) {
  const int layers = in.num_layers(), stages = in.num_stages * in.chunks_per_stage;
  Assignment a{std::vector<int>(layers, 0), std::vector<int>(layers, 0)};
  const std::function<void(int)> place = [&](int u) {
    if (u == layers) {
      if (a.stage.back() == stages - 1) visit(a);
      return;
    }
    for (int s = u == 0 ? 0 : a.stage[u - 1]; s <= (u == 0 ? 0 : std::min(a.stage[u - 1] + 1, stages - 1)); ++s) {
      a.stage[u] = s;
      for (int k = 0; k < static_cast<int>(in.cost[u].size()); ++k) {
        a.strategy[u] = k;
        place(u + 1);
      }
    }
  };
  place(0);
}

struct BruteForce {
  bool found = false;
  Assignment assignment;
  int64_t value = INT64_MAX;
  int64_t missing = INT64_MAX;  // least of the largest excess
  int64_t count = 0;
};

inline BruteForce brute_force(const Instance& in, Objective objective = Objective::simulated) {
  BruteForce best;
  Pricer price(in);
  for_each_assignment(in, [&](const Assignment& a) {
    ++best.count;
    const Priced p = price(a);
    best.missing = std::min(best.missing, p.missing_bytes);
    if (!p.fits()) return;
    const int64_t value = objective == Objective::simple ? simple_objective(p.shape, p.times) : p.makespan;
    if (value >= best.value) return;
    best.found = true;
    best.value = value;
    best.assignment = a;
  });
  return best;
}

}  // namespace tern
