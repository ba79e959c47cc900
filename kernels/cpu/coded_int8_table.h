#pragma once
// What one instruction set offers for kernels/cpu/coded_int8.h. Raw pointers alone: kernels/README.md says why.

#include <cstdint>

#include "base/dtype.h"
#include "kernels/cpu/code_groups.h"
#include "kernels/cpu/coded_rows.h"
#include "kernels/cpu/tables.h"

namespace tern {

/// Unpacks `count` blocks to groups; groups behind the last block are not written. Only types with a scale for each 16 numbers set by_16.
using GroupBlocks = void (*)(const uint8_t* blocks, int64_t count, CodeGroups&);
using GroupLearnedBlocks = void (*)(const uint8_t* blocks, int64_t count, const RowCodebook&, CodeGroups&);
struct CodeGroupsTable {
  GroupBlocks of[kNumWeightTypes];                 // by WeightType; types with groups and without learned tables
  GroupLearnedBlocks of_learned[kNumWeightTypes];  // types with learned tables. Any other type: nullptr in both
};
TERN_DECLARE_TABLES(CodeGroupsTable, code_groups_table)

// Products on the tile unit (int8_tiles_impl.h). Rows of x are rounded to strips of 16 rows. A task unpacks a panel, up to kInt8PanelRows
// rows of w, and multiplies all strips with it. 16 rows of x or w take kInt8StretchBytes for each 256 numbers of a row.
constexpr int64_t kInt8Strip = 16, kInt8PanelRows = 128;
constexpr int64_t kInt8StretchBytes = 6144;
struct Int8Strips {
  const void* strips;
  int64_t rows, k;  // of x
};
template <class T, class Out>
using Int8TilePanel = void (*)(const CodedRows& piece, int64_t first, int64_t number, const Int8Strips& x, void* panel,
                               const T* bias, bool add, Out* y, int64_t y_stride);
/// needs_sums: whether products with such a piece need sums of x's codes. round_*: makes a strip of up to 16 rows of x (stride k), with those
/// sums or without. The others multiply all strips with one panel; y and bias begin at its first column.
struct Int8Tiles {
  bool (*needs_sums)(WeightType);
  void (*round_f32)(const float* x, int64_t rows, int64_t k, bool with_sums, void* strip);
  void (*round_bf16)(const tern::bf16* x, int64_t rows, int64_t k, bool with_sums, void* strip);
  Int8TilePanel<float, float> f32;
  Int8TilePanel<tern::bf16, tern::bf16> bf16;
  Int8TilePanel<tern::bf16, float> bf16_to_f32;
};

struct CodedInt8Table {
  void (*f32)(const float* x, const CodedRows* pieces, const float* bias, int64_t m, int64_t n, int64_t k, bool add,
              float* y, int64_t y_stride);
  void (*bf16)(const tern::bf16* x, const CodedRows* pieces, const tern::bf16* bias, int64_t m, int64_t n, int64_t k,
               bool add, tern::bf16* y, int64_t y_stride);
  void (*bf16_to_f32)(const tern::bf16* x, const CodedRows* pieces, const tern::bf16* bias, int64_t m, int64_t n,
                      int64_t k, bool add, float* y, int64_t y_stride);
  Int8Tiles tiles = {};  // null functions: a set without tiles
};
TERN_DECLARE_TABLES(CodedInt8Table, coded_int8_table)

}  // namespace tern
