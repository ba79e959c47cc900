#pragma once
// The number of (query, key) pairs that attention looks at in one head.

#include <cstdint>

#include "spec/model_spec.h"

namespace tern {

/// Pairs of `queries` new positions of one sequence that follow `past` positions: causal, under a window (0: none).
int64_t attended_pairs(int64_t queries, int64_t past, int64_t window);
/// Pairs of one training sequence: causal under the attention's window, or every query with every key.
int64_t attended_pairs(const AttentionSpec&, int64_t seq);

}  // namespace tern
