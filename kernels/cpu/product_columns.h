#pragma once
// A product may write into n columns of a wider matrix, whose rows are `stride` elements apart (0: n).

#include <cstddef>
#include <cstdint>

#include "base/error.h"

namespace tern {

/// The number of elements from the first through the last of m such rows.
inline int64_t columns_extent(int64_t m, int64_t n, int64_t stride) {
  return m == 0 || n == 0 ? 0 : (m - 1) * (stride > 0 ? stride : n) + n;
}
/// The stride that `stride` stands for. Errors  bug: `have` is another number of elements, or rows overlap.
inline int64_t checked_stride(const char* what, size_t have, int64_t m, int64_t n, int64_t stride) {
  const bool apart = stride == 0 || stride >= n;
  TERN_CHECK(m >= 0 && n >= 0 && apart && have == static_cast<size_t>(columns_extent(m, n, stride)),
             "{}: {} elements for {} × {} of rows of {}", what, have, m, n, stride);
  return stride > 0 ? stride : n;
}

}  // namespace tern
