#pragma once
// Some rows of a weight as a file codes them.

#include <cstdint>

#include "base/weight_type.h"

namespace tern {

/// What a block of learned codes is decoded with: the tables of its matrix and the scale of its row.
struct RowCodebook {
  const int8_t* tables = nullptr;
  float scale = 0;  // the row's
};

/// `count` rows at `bytes`, one behind the other, each of whole blocks of `type`; of any alignment. tables: the learned tables, if the type has
/// them (kernels/cpu/learned_codes.h), else nullptr. head_dim > 0: the file interleaves the two halves of each head, as GGUF does for queries
/// and keys of rotary models. Then row s·(head_dim/2) + j of a head, with s 0 or 1, is row 2j + s of that head in the file.
struct CodedRows {
  WeightType type;
  const uint8_t* bytes;
  int64_t count;
  int64_t head_dim = 0;
  const int8_t* tables = nullptr;
};

}  // namespace tern
