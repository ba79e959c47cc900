#include "kernels/cpu/coded_int8.h"

#include "base/error.h"
#include "kernels/cpu/coded_int8_table.h"
#include "kernels/dispatch.h"

namespace tern {
namespace {

const CodeGroupsTable& groups_table() {
  const Isa isa = active_isa();
  return TERN_TABLE_OF(code_groups_table, isa);
}
const CodedInt8Table& table() {
  const Isa isa = active_isa();
  return TERN_TABLE_OF(coded_int8_table, isa);
}

}  // namespace

bool has_code_groups(WeightType type) {
  const auto at = static_cast<int>(type);
  return groups_table().of[at] != nullptr || groups_table().of_learned[at] != nullptr;
}

void code_groups(WeightType type, std::span<const std::byte> blocks, CodeGroups& out, const RowCodebook& codebook) {
  const WeightTypeRow& row = row_of(type);
  const auto bytes = static_cast<int64_t>(blocks.size()), count = bytes / row.block_bytes;
  TERN_CHECK((row.levels > 0) == (codebook.tables != nullptr), "code_groups: tables of {}", row.name);
  TERN_CHECK(has_code_groups(type) && bytes % row.block_bytes == 0 && count * row.block_elements <= kGroupedCodes,
             "code_groups: {} bytes of {}", bytes, row.name);
  out = {};
  const auto* from = reinterpret_cast<const uint8_t*>(blocks.data());
  const auto at = static_cast<int>(type);
  if (row.levels > 0) return groups_table().of_learned[at](from, count, codebook, out);
  groups_table().of[at](from, count, out);
}

template <class T, class Out>
void multiply_coded_int8(std::span<const T> x, std::span<const CodedRows> w, std::span<const T> bias, int64_t m,
                         int64_t n, int64_t k, bool add, std::span<Out> y) {
  int64_t rows = 0;
  for (const CodedRows& piece : w) {
    TERN_CHECK(has_code_groups(piece.type) && fills_blocks(piece.type, k) && piece.count >= 0,
               "multiply_coded_int8: {} rows of {} elements of {}", piece.count, k, name_of(piece.type));
    TERN_CHECK((table_bytes(piece.type) > 0) == (piece.tables != nullptr), "multiply_coded_int8: tables of {}",
               name_of(piece.type));
    TERN_CHECK(piece.head_dim == 0 || (piece.head_dim % 2 == 0 && piece.count % piece.head_dim == 0),
               "multiply_coded_int8: {} rows of heads of {}", piece.count, piece.head_dim);
    rows += piece.count;
  }
  TERN_CHECK(k <= kInt8Columns && rows == n && m >= 0 && x.size() == static_cast<size_t>(m * k) &&
                 y.size() == static_cast<size_t>(m * n) && (bias.empty() || bias.size() == static_cast<size_t>(n)),
             "multiply_coded_int8: ({}, {}, {}), {} rows of w, x {}, y {}, bias {}", m, n, k, rows, x.size(), y.size(),
             bias.size());
  const T* b = bias.empty() ? nullptr : bias.data();
  if constexpr (sizeof(T) == 4)
    table().f32(x.data(), w.data(), b, m, n, k, add, y.data());
  else if constexpr (sizeof(Out) == 4)
    table().bf16_to_f32(x.data(), w.data(), b, m, n, k, add, y.data());
  else
    table().bf16(x.data(), w.data(), b, m, n, k, add, y.data());
}

#define TERN_INSTANTIATE(T, Out)                                                                                \
  template void multiply_coded_int8<T, Out>(std::span<const T>, std::span<const CodedRows>, std::span<const T>, \
                                            int64_t, int64_t, int64_t, bool, std::span<Out>);
TERN_INSTANTIATE(float, float)
TERN_INSTANTIATE(bf16, bf16)
TERN_INSTANTIATE(bf16, float)

}  // namespace tern
