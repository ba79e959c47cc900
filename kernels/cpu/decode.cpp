#include "kernels/cpu/decode.h"

#include "base/error.h"
#include "kernels/cpu/decode_table.h"
#include "kernels/dispatch.h"

namespace tern {

void decode_blocks(WeightType type, std::span<const std::byte> blocks, std::span<float> out) {
  const WeightTypeRow& row = row_of(type);
  const auto bytes = static_cast<int64_t>(blocks.size()), elements = static_cast<int64_t>(out.size());
  TERN_CHECK(bytes % row.block_bytes == 0 && bytes / row.block_bytes * row.block_elements == elements,
             "decode_blocks: {} bytes of {}, {} numbers", bytes, row.name, elements);
  TERN_CHECK(row.levels == 0, "decode_blocks: {} is decoded with its tables: gather_coded_rows", row.name);
  const Isa isa = active_isa();
  TERN_TABLE_OF(decode_table, isa)
      .of[static_cast<int>(type)]
      .decode(reinterpret_cast<const uint8_t*>(blocks.data()), bytes / row.block_bytes, out.data());
}

}  // namespace tern
