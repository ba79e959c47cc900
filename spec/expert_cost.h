#pragma once
// What a mixture's unit sends in an expert group (model/expert_ranks.h).

#include "spec/unit_cost.h"

namespace tern {

/// Bytes that this rank's passes send over a group of n = CostQuery::expert ranks, assuming that every expert gets
/// equally many rows. The 1/n that stays on the rank is included. As many bytes are received.
struct RoutedBytes {
  int64_t forward = 0;         // to experts: rows; back: results
  int64_t backward_input = 0;  // to experts: gradients of results, router weights; back: gradients of rows, of weights
  int64_t told = 0;            // in the forward, before the rows: how many come
};
/// Zeros for units that are no mixtures, and without a group.
RoutedBytes routed_bytes(const Unit&, const CostQuery&);

}  // namespace tern
