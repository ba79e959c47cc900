#pragma once
// What one instruction set offers for kernels/cpu/coded_int8.h. Raw pointers alone: kernels/README.md says why.

#include <cstdint>

#include "base/dtype.h"
#include "kernels/cpu/code_groups.h"
#include "kernels/cpu/coded_rows.h"
#include "kernels/cpu/tables.h"

namespace tern {

/// `count` blocks to groups. Groups behind them are not written, and by_16 is written (true) by types with a scale for 16 numbers alone.
using GroupBlocks = void (*)(const uint8_t* blocks, int64_t count, CodeGroups&);
using GroupLearnedBlocks = void (*)(const uint8_t* blocks, int64_t count, const RowCodebook&, CodeGroups&);
struct CodeGroupsTable {
  GroupBlocks of[kNumWeightTypes];                 // by WeightType, of types with groups and without learned tables
  GroupLearnedBlocks of_learned[kNumWeightTypes];  // of types with learned tables; nullptr in both: any other type
};
TERN_DECLARE_TABLES(CodeGroupsTable, code_groups_table)

struct CodedInt8Table {
  void (*f32)(const float* x, const CodedRows* pieces, const float* bias, int64_t m, int64_t n, int64_t k, bool add,
              float* y);
  void (*bf16)(const tern::bf16* x, const CodedRows* pieces, const tern::bf16* bias, int64_t m, int64_t n, int64_t k,
               bool add, tern::bf16* y);
  void (*bf16_to_f32)(const tern::bf16* x, const CodedRows* pieces, const tern::bf16* bias, int64_t m, int64_t n,
                      int64_t k, bool add, float* y);
};
TERN_DECLARE_TABLES(CodedInt8Table, coded_int8_table)

}  // namespace tern
