#pragma once
// What a mixture's unit sends in an expert group (model/expert_ranks.h).

#include "spec/unit_cost.h"

namespace tern {

/// Bytes that this rank's passes send over a group of CostQuery::expert ranks, the 1/n of them that stays on the rank included, if the
/// router gives every expert as many rows: a planner's assumption. As many are received.
struct RoutedBytes {
  int64_t forward = 0;         // rows on their way to their experts, and their results back
  int64_t backward_input = 0;  // the gradients of results with their weights; those of rows and weights back
  int64_t told = 0;            // in the forward, before: how many rows come
};
/// Zeros for units that are no mixtures, and without a group.
RoutedBytes routed_bytes(const Unit&, const CostQuery&);

}  // namespace tern
