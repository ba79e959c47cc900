#pragma once
// The family of plans that cut a pool of unlike devices into several pipelines, as a rival of the plan.

#include <cstdint>
#include <functional>
#include <string>

#include "planner/outer/candidates_impl.h"

namespace tern {

/// The best plan of several pipelines of unlike shape side by side. Times in ps.
struct PoolFamily {
  bool found = false;
  bool complete = true;  // no tensor degree was left out, and the time was not over
  std::string choice;
  int64_t makespan = 0, bound = 0;
  int64_t columns = 0, searched = 0;
};
/// Searches pipelines (pipeline_pool.h) with one tensor degree and micro-batch, ZeRO 0 and 1F1B, for a makespan below
/// `upper_bound`. late: whether the time is over.
PoolFamily best_pool(const SpaceOfChoices&, const Cluster&, const PlanRequest&, int64_t upper_bound,
                     const std::function<bool()>& late);

}  // namespace tern
