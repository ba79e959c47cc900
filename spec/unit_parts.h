#pragma once
// Sizes of the part of a unit that one rank of a tensor group has. The closed forms of spec/unit_cost.h take these sizes.

#include <algorithm>
#include <array>

#include "spec/unit_cost.h"

namespace tern {

/// The largest part if n is cut into `parts` parts that are as equal as possible.
inline int64_t largest_part(int64_t n, int64_t parts) { return (n + parts - 1) / parts; }
/// Rows for which this rank computes the norms (sequence parallelism).
inline int64_t split_rows(const CostQuery& q) { return largest_part(q.tokens, q.tensor); }

/// A matrix of `rows` rows, and the adapters beside up to three parts of its rows; a part whose adapter rank is 0 has no
/// adapter.
struct AdaptedMatrix {
  struct Part {
    int64_t rows = 0, adapter_rank = 0, pool = 1, repeat = 1;
    bool magnitude = false, dropout = false, elastic = false;
    int64_t rows_of_b() const { return rows / repeat; }
  };
  int64_t rows = 0;
  std::array<Part, 3> parts{};
};
inline AdaptedMatrix adapted_matrix(const UnitAdapters& adapters, AdaptedModule module, int64_t rows) {
  const ModuleAdapter* a = find_adapter(adapters, module);
  if (!a) return {rows, {{{rows}}}};
  return {rows, {{{rows, a->rank, a->pool, a->repeat, a->magnitude, a->dropout > 0, a->elastic}}}};
}
/// The matrix of several modules stacked by rows. If `fused` has an adapter, all rows count as that one module.
inline AdaptedMatrix adapted_matrix(const UnitAdapters& adapters, AdaptedModule fused,
                                    std::initializer_list<std::pair<AdaptedModule, int64_t>> modules) {
  AdaptedMatrix matrix;
  size_t i = 0;
  for (const auto& [module, rows] : modules) {
    matrix.rows += rows;
    matrix.parts[i++] = adapted_matrix(adapters, module, rows).parts[0];
  }
  return find_adapter(adapters, fused) ? adapted_matrix(adapters, fused, matrix.rows) : matrix;
}
inline AdaptedMatrix qkv_matrix(const UnitAdapters& adapters, int64_t queries, int64_t keys) {
  using enum AdaptedModule;
  return adapted_matrix(adapters, query_key_value, {{query, queries}, {key, keys}, {value, keys}});
}
inline AdaptedMatrix up_matrix(const UnitAdapters& adapters, int64_t hidden, bool gated) {
  using enum AdaptedModule;
  if (!gated) return adapted_matrix(adapters, up, hidden);
  return adapted_matrix(adapters, gate_up, {{gate, hidden}, {up, hidden}});
}

/// The attention with only the heads of one rank of a tensor group.
inline AttentionSpec with_own_heads(AttentionSpec u, int64_t tensor) {
  u.heads = largest_part(u.heads, tensor);
  u.kv_heads = largest_part(u.kv_heads, tensor);
  return u;
}

}  // namespace tern
