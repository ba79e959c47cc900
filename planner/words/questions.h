#pragma once
// Questions around a plan, each answered by planning again: what a little more memory or link would gain, how many
// nodes to take, which batch, and the smallest change that makes a given configuration fit.

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

/// One answer of a row of questions; found: false, nothing fits or none was found.
struct PlannedPoint {
  int64_t asked = 0;  // nodes, or sequences of a step
  bool found = false;
  bool searched = true;  // false: a stop came before
  bool cut = false;      // by time or a stop: there may be more, and better, than was found
  int64_t devices = 0, step_ps = 0;
  double tokens_per_second = 0, price_per_hour = 0;
  std::string choice;
  bool front = false;  // no other point is at least as good in all that is asked for; only where no point was cut
  double price_per_million_tokens() const {
    return tokens_per_second > 0 ? price_per_hour / 3.6e-3 / tokens_per_second : 0;
  }
};
/// Whether every question was searched to its end: only then does one point of the row beat the others.
bool all_searched(const std::vector<PlannedPoint>&);
/// 1, 2, 4, … and all nodes of a cluster of one type; front: of devices, step and price per token. `whole`: the answer
/// for all nodes, which is not searched again.
/// Errors: usage, for nodes of several types.
std::vector<PlannedPoint> plan_node_counts(const ModelSpec&, const Cluster&, const PlanRequest&,
                                           const PlanAnswer& whole);
/// Each batch; front: of step and tokens/s. Order: as given.
std::vector<PlannedPoint> plan_batches(const ModelSpec&, const Cluster&, const PlanRequest&,
                                       const std::vector<int64_t>& batches);
/// `first`, then doubled as long as it stays below `last`, then `last`.
std::vector<int64_t> doubling(int64_t first, int64_t last);

/// What to let go of a configuration that does not fit.
struct SmallestChange {
  int axes = 1;         // changed
  std::string words;    // "recompute=none → full"
  std::string pins;     // for --fix
  std::string offload;  // for --offload: "states", "activations" or "all"; "": as it was
  int64_t step_ps = 0;
};
/// One axis at a time, then two: the others stay as `pinned` has them, the changed ones take any value with which a
/// plan fits, the fastest of them. `base`: the space without pins. Homes of states and activations that `base`
/// keeps on the device are let go of too: words and `offload` then say so. Fastest first; those of two axes only where
/// they beat every single one. Counts end it: at most 120 searches, each until its bound is proven or its effort spent;
/// `stop` and seconds too.
std::vector<SmallestChange> smallest_changes(const ModelSpec&, const Cluster&, const PlanRequest&,
                                             const SearchSpace& base, const PinnedAxes& pinned);

}  // namespace tern
