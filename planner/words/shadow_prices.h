#pragma once
// How much faster a step is with a little more memory, link or compute: a new plan is made for each.

#include <cstdint>
#include <string>
#include <vector>

#include "planner/outer/plan_model.h"

namespace tern {

/// The best step on a machine with a little more of one thing.
struct ShadowPrice {
  std::string what;     // "1 GB more memory per device"
  int64_t step_ps = 0;  // at most the plan's own, since the plan itself stays possible
  std::string choice;   // the mesh and pipeline of that step
  bool cut = false;     // time or a stop ended its search, so a faster step may exist
};
/// The best step with 1 GB more memory per device; and the best steps with 10 % more of one rate each: links inside a node, network (if
/// there are several nodes), matrix products, memory of the device, host links (if the space offloads). Each is a search with the
/// request's limits.
std::vector<ShadowPrice> shadow_prices(const ModelSpec&, const Cluster&, const PlanRequest&, const Plan&);

}  // namespace tern
