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

/// A product may write into some columns of a wider matrix, whose rows are `stride` elements apart: how many elements lie from its first
/// element (m, n) to its last. 0 for `stride` stands for n.
inline int64_t columns_extent(int64_t m, int64_t n, int64_t stride) {
  return m == 0 || n == 0 ? 0 : (m - 1) * (stride > 0 ? stride : n) + n;
}

}  // namespace tern
