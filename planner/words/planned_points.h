#pragma once
// Series of questions, each answered by planning again: how many nodes to take, and which batch.

#include <cstdint>
#include <string>
#include <vector>

#include "planner/outer/plan_model.h"

namespace tern {

/// The answer to one question of a series. found is false if nothing fits or no plan was found.
struct PlannedPoint {
  int64_t asked = 0;  // nodes, or sequences of a step
  bool found = false;
  bool searched = true;  // false: a stop came before its search
  bool cut = false;      // time or a stop ended its search: there may be a better plan than was found
  int64_t devices = 0, step_ps = 0;
  double tokens_per_second = 0, price_per_hour = 0;
  std::string choice;
  bool front = false;  // no other point is better in one compared number and no worse in any; false if a point was cut
  double price_per_million_tokens() const {
    return tokens_per_second > 0 ? price_per_hour / 3.6e-3 / tokens_per_second : 0;
  }
};
/// Whether every question was searched to its end. Only then can one point be called better than the others.
bool all_searched(const std::vector<PlannedPoint>&);
/// Plans for 1, 2, 4, … and all nodes of a cluster of one type. `front` compares devices, step and price per token.
/// `whole`: the answer for all nodes, which is not searched again.
/// Errors: usage, for nodes of several types.
std::vector<PlannedPoint> plan_node_counts(const ModelSpec&, const Cluster&, const PlanRequest&,
                                           const PlanAnswer& whole);
/// Plans for each batch, in their order. `front` compares step and tokens/s.
std::vector<PlannedPoint> plan_batches(const ModelSpec&, const Cluster&, const PlanRequest&,
                                       const std::vector<int64_t>& batches);
/// first, 2·first, 4·first, … as long as they are below `last`, then `last`.
std::vector<int64_t> doubling(int64_t first, int64_t last);

}  // namespace tern
