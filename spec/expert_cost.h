#pragma once
// What a mixture-of-experts unit sends within its expert group (model/expert_ranks.h).

#include "spec/unit_cost.h"

namespace tern {

/// Bytes that this rank's passes send over a group of n = CostQuery::expert ranks, assuming that every expert gets
/// equally many rows. The 1/n that stays on the rank is included. As many bytes are received.
struct RoutedBytes {
  int64_t forward = 0;         // out to the experts: rows; back: results
  int64_t backward_input = 0;  // out: gradients of results, router weights; back: gradients of rows, of router weights
  int64_t told = 0;            // in the forward, before the rows: how many rows each expert gets
};
/// Zeros for units without experts, and if CostQuery::expert is 1.
RoutedBytes routed_bytes(const Unit&, const CostQuery&);

}  // namespace tern
