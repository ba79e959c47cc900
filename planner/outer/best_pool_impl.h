#pragma once
// The family of plans that cut a pool of unlike devices into several pipelines, as a rival of the plan.

#include <cstdint>
#include <functional>
#include <string>

#include "planner/outer/candidates_impl.h"

namespace tern {

/// The best pipelines of unlike shape side by side (pipeline_pool.h) with one tensor degree and micro-batch, ZeRO 0 and
/// 1F1B, if they are below `upper_bound`.
struct PoolFamily {
  bool found = false;
  bool complete = true;  // no degree was left out, and it was not late
  std::string choice;
  int64_t makespan = 0, bound = 0;
  int64_t columns = 0, searched = 0;
};
PoolFamily best_pool(const SpaceOfChoices&, const Cluster&, const PlanRequest&, int64_t upper_bound,
                     const std::function<bool()>& late);

}  // namespace tern
