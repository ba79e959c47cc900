#pragma once
// The part of a unit that one rank of a tensor group has: for the closed forms of spec/unit_cost.h.

#include "spec/unit_cost.h"

namespace tern {

/// Of the widest part.
inline int64_t parts_of(int64_t n, int64_t parts) { return (n + parts - 1) / parts; }
/// Rows whose norms this rank takes (sequence parallelism).
inline int64_t split_rows(const CostQuery& q) { return parts_of(q.tokens, q.tensor); }

/// Rows of a matrix that holds up to three one below the other, each with an adapter of its own; 0: no more of them.
struct MatrixParts {
  int64_t rows[3] = {};
  int64_t total() const { return rows[0] + rows[1] + rows[2]; }
};

/// Heads of one rank.
inline AttentionSpec part_of(AttentionSpec u, int64_t tensor) {
  u.heads = parts_of(u.heads, tensor);
  u.kv_heads = parts_of(u.kv_heads, tensor);
  return u;
}

}  // namespace tern
