#pragma once
// What one instruction set offers for kernels/cpu/cross_entropy.h; weights may be null.

#include <cstdint>

#include "kernels/cpu/tables.h"

namespace tern {

struct CrossEntropyTable {
  void (*forward_backward)(int64_t vocab, int64_t rows, const int32_t* targets, const float* weights, float scale,
                           float* logits, float* losses);
  void (*losses)(int64_t vocab, int64_t rows, const int32_t* targets, const float* logits, float* losses);
};
TERN_DECLARE_TABLES(CrossEntropyTable, cross_entropy_table)

}  // namespace tern
