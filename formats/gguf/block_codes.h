#pragma once
// A block of 32 numbers in one of GGUF's types: its codes, and the bytes that they make.

#include <cstdint>
#include <string>

#include "base/weight_type.h"

namespace tern {

/// A block as codes: number i is scale·(codes[i] − zero) + least, with `zero` of the type's BlockLevels.
struct BlockCodes {
  float scale = 0, least = 0;  // in GGUF's types values of f16
  uint8_t codes[64] = {};      // GGUF's blocks have the first 32
};
/// The codes of a type are 0 to `most`.
struct BlockLevels {
  int zero, most;
  bool has_least;  // else least is 0
};
/// The levels of Q8_0, Q5_1, Q5_0, Q4_1 and Q4_0. Errors  bug: another type.
BlockLevels levels_of(WeightType);
/// Appends the bytes of the block to `out`. Errors  as levels_of.
void append_block(WeightType, const BlockCodes&, std::string& out);

}  // namespace tern
