#pragma once
// Some rows of a weight as a file codes them.

#include <cstdint>

#include "base/weight_type.h"

namespace tern {

/// What blocks of learned codes need beside themselves.
struct RowCodebook {
  const int8_t* tables = nullptr;
  float scale = 0;  // the row's
};

/// `count` rows, one behind the other, each of whole blocks of `type`; of any alignment. tables: of a type that has learned
/// ones (kernels/cpu/learned_codes.h), else nullptr. head_dim > 0: the file interleaves the halves of each head (GGUF's queries
/// and keys of rotary models): row s·(head_dim/2) + j of a head is its row 2j + s in the file.
struct CodedRows {
  WeightType type;
  const uint8_t* bytes;
  int64_t count;
  int64_t head_dim = 0;
  const int8_t* tables = nullptr;
};

}  // namespace tern
