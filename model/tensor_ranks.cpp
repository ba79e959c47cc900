#include "model/tensor_ranks.h"

#include <algorithm>
#include <cstring>

#include "model/linear.h"
#include "model/ops.h"

namespace tern {
namespace {

RankParts by_rank(const Tensor& all, int ranks) {
  RankParts parts(static_cast<size_t>(ranks));
  for (int r = 0; r < ranks; ++r) {
    const Interval own = part_of(all.rows(), r, ranks);
    if (own.size() > 0) parts[static_cast<size_t>(r)].push_back(all.rows_view(own.begin, own.end));
  }
  return parts;
}

}  // namespace

Interval own_rows(int64_t rows, const Compute& c) {
  return c.tensor ? part_of(rows, c.tensor->comm.rank(), c.tensor->comm.size()) : Interval{0, rows};
}

void complete_rows(const Tensor& all, const Compute& c) {
  c.tensor->comm.all_gather(by_rank(all, c.tensor->comm.size()));
}

Tensor room_with_own(const Tensor& own, int64_t rows, const Compute& c) {
  const Tensor all = c.arena.allocate(own.dtype(), {rows, own.shape()[1]}, MemoryClass::workspace);
  const Interval mine = own_rows(rows, c);
  ops::copy(own, all.rows_view(mine.begin, mine.end));
  return all;
}

Tensor all_rows(const Tensor& own, int64_t rows, const Compute& c) {
  if (!c.tensor) return own;
  const Tensor all = room_with_own(own, rows, c);
  complete_rows(all, c);
  return all;
}

void sum_to_own_rows(const Tensor& summand, const Tensor& own, const Compute& c) {
  c.tensor->comm.reduce_scatter_sum(by_rank(summand, c.tensor->comm.size()));
  const Interval mine = own_rows(summand.rows(), c);
  ops::copy(summand.rows_view(mine.begin, mine.end), own);
}

void columns_backward_weight(const Linear& linear, const Tensor& dy, const Tensor& x, const Linear& gradient,
                             const Compute& c) {
  if (!c.tensor) return linear_backward_weight(linear, dy, x, gradient, c);
  Linear part = gradient;
  part.bias = {};
  linear_backward_weight(linear, all_rows(dy, x.rows(), c), x, part, c);
  if (!gradient.bias.empty()) ops::bias_backward(dy, gradient.bias);
}

}  // namespace tern
