#pragma once
// The contiguous runs of a matrix's elements that a rank holds (model/tensor_parts.h), in the whole matrix and in the rank's part.

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "spec/layout.h"
#include "tensor/tensor.h"

namespace tern {

/// Calls visit(begin in the whole, begin in the part, count) for each run of elements that is contiguous in both, in ascending order.
/// Shapes: `whole` is the whole tensor's shape, of one or two dims.
template <class Visit>
void for_each_held_run(const Holding& held, const Shape& whole, Visit visit) {
  const bool matrix = whole.rank == 2;
  TERN_CHECK(static_cast<int>(held.size()) == whole.rank && whole.rank <= 2, "tensor parts: a tensor of {} dims",
             whole.rank);
  const int64_t width = matrix ? whole[1] : 1;
  const std::vector<Interval> columns = matrix ? held[1] : std::vector<Interval>{{0, 1}};
  int64_t at = 0;
  for (const Interval& rows : held[0]) {
    if (columns.size() == 1 && columns[0].size() == width) {
      visit(rows.begin * width, at, rows.size() * width), at += rows.size() * width;
      continue;
    }
    for (int64_t r = rows.begin; r < rows.end; ++r)
      for (const Interval& c : columns) visit(r * width + c.begin, at, c.size()), at += c.size();
  }
}

/// Whether a rank holds the element of the whole tensor.
inline bool holds_element(const Holding& held, const Shape& whole, int64_t element) {
  const int64_t width = whole.rank == 2 ? whole[1] : 1, row = element / width, column = element % width;
  const auto has = [](const std::vector<Interval>& dim, int64_t i) {
    for (const Interval& part : dim)
      if (part.begin <= i && i < part.end) return true;
    return false;
  };
  return has(held[0], row) && (whole.rank < 2 || has(held[1], column));
}

}  // namespace tern
