#pragma once
// Some rows of a weight as they lie in memory, a mapped file perhaps.

#include <cstdint>

namespace tern {

/// (count, k) row-major. bf16 needs no alignment beyond its own.
template <class T>
struct WeightRows {
  const T* rows;
  int64_t count;
};

}  // namespace tern
