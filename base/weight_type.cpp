#include "base/weight_type.h"

#include "base/error.h"

namespace tern {

std::optional<WeightType> weight_type_from_name(std::string_view name) {
  for (const WeightTypeRow& row : kWeightTypes)
    if (row.name == name) return row.type;
  return std::nullopt;
}

int64_t stored_bytes(WeightType type, int64_t out, int64_t in) {
  TERN_CHECK(fills_blocks(type, in), "stored_bytes: rows of {} elements, {} comes in blocks of {}", in, name_of(type),
             row_of(type).block_elements);
  return out * (row_of(type).row_header_bytes + in / row_of(type).block_elements * row_of(type).block_bytes);
}

}  // namespace tern
