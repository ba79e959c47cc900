#include "kernels/cpu/coded_int8.h"

#include <omp.h>

#include <algorithm>

#include "base/error.h"
#include "base/region_errors.h"
#include "base/rounding.h"
#include "kernels/cpu/coded_int8_table.h"
#include "kernels/cpu/product_columns.h"
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

constexpr int64_t kTilesFrom = 16;                  // rows of x: fewer are multiplied with codes as they lie
constexpr int64_t kStripsBytes = int64_t{8} << 20;  // of strips at a time: a panel is unpacked once for them
constexpr int64_t kPanelBytes = int64_t{3} << 19;   // of a panel at most, if of more than 16 rows: it stays in L2

int64_t strip_bytes(int64_t k) { return ceil_div(k, kGroupedCodes) * kInt8StretchBytes; }
int64_t panel_rows(int64_t k) {
  return std::clamp(kPanelBytes / std::max<int64_t>(strip_bytes(k), 1) * kInt8Strip, kInt8Strip, kInt8PanelRows);
}
int64_t panel_bytes(int64_t k) { return panel_rows(k) / kInt8Strip * strip_bytes(k); }
int64_t most_strips(int64_t m, int64_t k) {
  return std::clamp(kStripsBytes / std::max<int64_t>(strip_bytes(k), 1), int64_t{1}, ceil_div(m, kInt8Strip));
}
int64_t strips_at_once(int64_t m, int64_t k) {
  const int64_t strips = ceil_div(m, kInt8Strip);
  return ceil_div(strips, ceil_div(strips, most_strips(m, k)));  // all blocks of rows about as large
}
bool runs_on_tiles(int64_t m) { return table().tiles.f32 && m >= kTilesFrom; }

struct PanelOfPiece {
  const CodedRows* piece;
  int64_t first, number, column;  // rows of the piece; of all pieces
};
/// Panels of panel_rows rows, or of fewer rows if the threads would have fewer than four panels each.
std::vector<PanelOfPiece> panels_of(std::span<const CodedRows> w, int64_t n, int64_t k, int64_t threads) {
  const int64_t of_thread = ceil_div(n, 4 * threads * kInt8Strip) * kInt8Strip;
  const int64_t rows = std::min(of_thread, panel_rows(k));
  std::vector<PanelOfPiece> panels;
  int64_t column = 0;
  for (const CodedRows& piece : w) {
    for (int64_t first = 0; first < piece.count; first += rows)
      panels.push_back({&piece, first, std::min(rows, piece.count - first), column + first});
    column += piece.count;
  }
  return panels;
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
void multiply_int8_on_tiles(const Int8Tiles& tiles, const T* x, std::span<const CodedRows> w, const T* bias, int64_t m,
                            int64_t n, int64_t k, bool add, Out* y, int64_t y_stride) {
  const std::vector<PanelOfPiece> panels = panels_of(w, n, k, omp_get_max_threads());
  const auto count = static_cast<int64_t>(panels.size());
  const bool sums = std::any_of(w.begin(), w.end(), [&](const CodedRows& p) { return tiles.needs_sums(p.type); });
  const int64_t at_once = strips_at_once(m, k);
  auto* const strips = static_cast<std::byte*>(thread_scratch(at_once * strip_bytes(k) + panel_bytes(k)));
  RegionErrors errors;
#pragma omp parallel
  {
    void* panel = strips + at_once * strip_bytes(k);
    if (omp_get_thread_num() > 0) errors.guard([&] { panel = nullptr, panel = thread_scratch(panel_bytes(k)); });
    for (int64_t row = 0; row < m; row += at_once * kInt8Strip) {
      const Int8Strips rounded{strips, std::min(at_once * kInt8Strip, m - row), k};
#pragma omp for schedule(static)
      for (int64_t i = 0; i < ceil_div(rounded.rows, kInt8Strip); ++i) {
        const int64_t first = row + i * kInt8Strip, number = std::min(kInt8Strip, m - first);
        if constexpr (sizeof(T) == 4)
          tiles.round_f32(x + first * k, number, k, sums, strips + i * strip_bytes(k));
        else
          tiles.round_bf16(x + first * k, number, k, sums, strips + i * strip_bytes(k));
      }
#pragma omp for schedule(dynamic, 1)
      for (int64_t i = 0; i < count; ++i) {
        if (!panel) continue;
        const PanelOfPiece& p = panels[static_cast<size_t>(i)];
        const T* of_bias = bias ? bias + p.column : nullptr;
        Out* to = y + row * y_stride + p.column;
        if constexpr (sizeof(T) == 4)
          tiles.f32(*p.piece, p.first, p.number, rounded, panel, of_bias, add, to, y_stride);
        else if constexpr (sizeof(Out) == 4)
          tiles.bf16_to_f32(*p.piece, p.first, p.number, rounded, panel, of_bias, add, to, y_stride);
        else
          tiles.bf16(*p.piece, p.first, p.number, rounded, panel, of_bias, add, to, y_stride);
      }
    }
  }
  errors.rethrow();
}

template <class T, class Out>
void multiply_coded_int8(std::span<const T> x, std::span<const CodedRows> w, std::span<const T> bias, int64_t m,
                         int64_t n, int64_t k, bool add, std::span<Out> y, int64_t y_stride) {
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

                 (bias.empty() || bias.size() == static_cast<size_t>(n)),
             "multiply_coded_int8: ({}, {}, {}), {} rows of w, x {}, y {}, bias {}", m, n, k, rows, x.size(), y.size(),
             bias.size());
  const int64_t stride = checked_stride("multiply_coded_int8: y", y.size(), m, n, y_stride);
  const T* b = bias.empty() ? nullptr : bias.data();
  if (runs_on_tiles(m) && n > 0 && k > 0)
    return multiply_int8_on_tiles<T, Out>(table().tiles, x.data(), w, b, m, n, k, add, y.data(), stride);
  if constexpr (sizeof(T) == 4)
    table().f32(x.data(), w.data(), b, m, n, k, add, y.data(), stride);
  else if constexpr (sizeof(Out) == 4)
    table().bf16_to_f32(x.data(), w.data(), b, m, n, k, add, y.data(), stride);
  else
    table().bf16(x.data(), w.data(), b, m, n, k, add, y.data(), stride);
}

ThreadBytes coded_int8_thread_bytes(int64_t m, int64_t k) {
  if (!runs_on_tiles(m)) return {};
  return {most_strips(m, k) * strip_bytes(k) + panel_bytes(k), panel_bytes(k)};
}

#define TERN_INSTANTIATE(T, Out)                                                                                 \
  template void multiply_int8_on_tiles<T, Out>(const Int8Tiles&, const T*, std::span<const CodedRows>, const T*, \
                                               int64_t, int64_t, int64_t, bool, Out*, int64_t);                  \
  template void multiply_coded_int8<T, Out>(std::span<const T>, std::span<const CodedRows>, std::span<const T>,  \
                                            int64_t, int64_t, int64_t, bool, std::span<Out>, int64_t);
TERN_INSTANTIATE(float, float)
TERN_INSTANTIATE(bf16, bf16)
TERN_INSTANTIATE(bf16, float)

}  // namespace tern
