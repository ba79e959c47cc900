#pragma once
// What a little more memory, link or compute would gain: planned anew with each.

#include <cstdint>
#include <string>
#include <vector>

#include "planner/outer/plan_model.h"

namespace tern {

/// The best step on a machine with a little more of one thing.
struct ShadowPrice {
  std::string what;     // "1 GB more memory per device"
  int64_t step_ps = 0;  // never above the plan's own: the plan itself stays possible
  std::string choice;   // the mesh and pipeline it takes
  bool cut = false;     // by time or a stop, before or in its search: it may be worth more
};
/// +1 GB of memory per device, +10 % of the links inside a node, of the network between nodes (more than one), of the
/// devices' products, and of host links where the space offloads. Each is a search with the request's limits.
std::vector<ShadowPrice> shadow_prices(const ModelSpec&, const Cluster&, const PlanRequest&, const Plan&);

}  // namespace tern
