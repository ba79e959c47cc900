#pragma once
// Some rows of a weight, not packed; they may lie in a mapped file.

#include <cstdint>

namespace tern {

/// (count, k) row-major. bf16 rows need an alignment of 2 bytes, no more.
template <class T>
struct WeightRows {
  const T* rows;
  int64_t count;
};

}  // namespace tern
