#include "spec/expert_cost.h"

#include "base/wide_type.h"
#include "spec/unit_parts.h"

namespace tern {

RoutedBytes routed_bytes(const Unit& unit, const CostQuery& q) {
  const MoeSpec* u = moe_of(unit);
  if (!u || q.expert == 1) return {};
  const int64_t rows = split_rows(q) * u->top_k, row = u->width * size_of(q.dtype);
  return {2 * rows * row, 2 * rows * (row + size_of(wide_type(q.dtype))), u->experts * int64_t{sizeof(int32_t)}};
}

}  // namespace tern
