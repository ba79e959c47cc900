#pragma once
// How the rows of a weight matrix are stored: as blocks of neighbouring numbers. A block is decoded by itself, or, in types
// with learned tables, with the row's scale and the matrix's tables (kernels/cpu/learned_codes.h). base/weight_types.def has
// a line for each type; kernels/cpu/decode.h turns blocks into numbers.

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/dtype.h"

namespace tern {

enum class WeightType : uint8_t {
#define TERN_WEIGHT_TYPE(id, ...) id,
#include "base/weight_types.def"
#undef TERN_WEIGHT_TYPE
};

constexpr uint32_t kNotInGguf = UINT32_MAX;
constexpr int64_t kCodeTables = 4;  // of a matrix of a type with learned tables

struct WeightTypeRow {
  WeightType type;
  std::string_view name;  // "Q4_K": as GGUF writes it
  uint32_t gguf;          // its number in GGUF, or kNotInGguf
  int64_t block_elements, block_bytes;
  int64_t row_header_bytes = 0;  // of a row's scale, which stands before its blocks
  int64_t levels = 0;            // of each learned table of the matrix; 0: the type has no tables
};

inline constexpr WeightTypeRow kWeightTypes[] = {
#define TERN_WEIGHT_TYPE(id, ...) {WeightType::id, __VA_ARGS__},
#include "base/weight_types.def"
#undef TERN_WEIGHT_TYPE
};
inline constexpr int kNumWeightTypes = static_cast<int>(sizeof kWeightTypes / sizeof kWeightTypes[0]);

constexpr const WeightTypeRow& row_of(WeightType type) { return kWeightTypes[static_cast<int>(type)]; }
constexpr std::string_view name_of(WeightType type) { return row_of(type).name; }
/// nullopt: no type has this name.
std::optional<WeightType> weight_type_from_name(std::string_view);

/// weight_type_of: the weight type that stores numbers of this type uncoded; nullopt: there is none. dtype_of: the inverse;
/// nullopt: the weights are coded in blocks.
constexpr std::optional<WeightType> weight_type_of(DType type) {
  switch (type) {
    case DType::f32:
      return WeightType::f32;
    case DType::f16:
      return WeightType::f16;
    case DType::bf16:
      return WeightType::bf16;
    default:
      return {};
  }
}
constexpr std::optional<DType> dtype_of(WeightType type) {
  for (const DType dense : {DType::f32, DType::f16, DType::bf16})
    if (weight_type_of(dense) == type) return dense;
  return {};
}

/// Whether a row of `in` elements consists of whole blocks.
constexpr bool fills_blocks(WeightType type, int64_t in) { return in % row_of(type).block_elements == 0; }
/// Bytes of `out` rows of `in` elements, one after the other, without tables. Errors  bug: rows do not fill their blocks.
int64_t stored_bytes(WeightType, int64_t out, int64_t in);
/// Bytes of the tables of a matrix: kCodeTables·levels; 0: the type has none.
constexpr int64_t table_bytes(WeightType type) { return kCodeTables * row_of(type).levels; }
/// Bits for each number, with its share of the block's scales, but without the row's header and the matrix's tables.
constexpr double bits_per_weight(WeightType type) {
  return 8.0 * static_cast<double>(row_of(type).block_bytes) / static_cast<double>(row_of(type).block_elements);
}

}  // namespace tern
