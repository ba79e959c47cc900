#pragma once
// What one instruction set offers for kernels/cpu/decode.h. Raw pointers alone: kernels/README.md says why.

#include <cstdint>

#include "base/weight_type.h"
#include "kernels/cpu/coded_rows.h"
#include "kernels/cpu/tables.h"

namespace tern {

/// Decodes `count` blocks, one behind the other, to their numbers.
using DecodeBlocks = void (*)(const uint8_t* blocks, int64_t count, float* out);
using DecodeLearnedBlocks = void (*)(const uint8_t* blocks, int64_t count, const RowCodebook&, float* out);
struct BlockDecoder {
  int64_t block_elements, block_bytes, row_header_bytes;
  DecodeBlocks decode;                 // of types without learned tables; else nullptr
  DecodeLearnedBlocks decode_learned;  // of types with learned tables; else nullptr
};
struct DecodeTable {
  BlockDecoder of[kNumWeightTypes];  // by WeightType
};
TERN_DECLARE_TABLES(DecodeTable, decode_table)

}  // namespace tern
