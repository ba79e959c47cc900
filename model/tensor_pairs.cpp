// Products of a tensor group beside the exchange of their rows. Where TensorRanks::beside is set, rows are exchanged in two halves, each of
// which has half of every rank's own rows, while the rank multiplies:
//   gather, multiply   gather half 0 | own rows,  gather half 1 | half 0 of the others,  half 1 of the others
//   multiply, sum      half 0,  sum half 0 | half 1,  sum half 1
// A half's rows lie in one stretch for each rank, and each stretch is a product of its own. So only products whose rows have the same bits
// alone are cut (multiplies_rows_alone); the sums' bits do not depend on how a vector is cut (comm/comm.h). Weight gradients are sums over
// the rows: they take all rows at once.
// Source: by halves of a batch: Lai et al. 2023, arXiv:2206.04959, §4.3 (Merak); Wang et al. 2024, arXiv:2409.15241 (Domino) (both recalled).
// Ours: halves of each rank's rows, so that no unit knows of them, and own rows first, which need no message.

#include <functional>
#include <optional>
#include <variant>

#include "model/linear.h"
#include "model/ops.h"
#include "model/tensor_ranks.h"

namespace tern {
namespace {

// Half of a rank's rows; the first has the odd one.
Interval half_of(const Interval& own, int half) {
  const int64_t middle = own.begin + (own.size() + 1) / 2;
  return half == 0 ? Interval{own.begin, middle} : Interval{middle, own.end};
}

RankParts half_by_rank(const Tensor& all, int ranks, int half) {
  RankParts parts(static_cast<size_t>(ranks));
  for (int r = 0; r < ranks; ++r) {
    const Interval rows = half_of(part_of(all.rows(), r, ranks), half);
    if (rows.size() > 0) parts[static_cast<size_t>(r)].push_back(all.rows_view(rows.begin, rows.end));
  }
  return parts;
}

// Whether the group multiplies by such a matrix beside the exchange of `rows` rows. All ranks have the same answer.
bool is_cut(const Linear& linear, ProductKind product, int64_t rows, DType dtype, const Compute& c) {
  return c.tensor->beside && rows > 0 && !c.observer && linear.branches.empty() &&
         std::holds_alternative<DenseWeight>(linear.weight) && multiplies_rows_alone(c.multiply, dtype, product);
}

// Multiplies a stretch of rows.
using MultiplyRows = std::function<void(const Interval&)>;

// By own kernels, as is_cut says. A weight that they read packed (Multiply::exact) is packed once.
MultiplyRows forward_of(const Linear& linear, const Tensor& x, const Tensor& y, const Compute& c) {
  const Compute plain{c.arena, c.multiply};
  return [linear, x, y, plain, scratch = forward_scratch(linear, y.rows(), x.dtype(), plain)](const Interval& rows) {
    linear_forward(linear, x.rows_view(rows.begin, rows.end), y.rows_view(rows.begin, rows.end), scratch, plain);
  };
}
MultiplyRows backward_input_of(const Linear& linear, const Tensor& dy, const Tensor& dx, const Compute& c) {
  const Compute plain{c.arena, c.multiply};
  return [linear, dy, dx, plain](const Interval& rows) {
    linear_backward_input(linear, dy.rows_view(rows.begin, rows.end), dx.rows_view(rows.begin, rows.end), plain);
  };
}

// `all` already holds this rank's rows.
void gather_beside(const Tensor& all, const MultiplyRows& multiply, const Compute& c) {
  Comm& comm = c.tensor->comm;
  const int ranks = comm.size(), rank = comm.rank();
  const auto multiply_others = [&](int half) {
    for (int r = 0; r < ranks; ++r)
      if (r != rank) multiply(half_of(part_of(all.rows(), r, ranks), half));
  };
  for (const int half : {0, 1}) {
    PostedExchange gather(*c.tensor->beside, [&, half] { comm.all_gather(half_by_rank(all, ranks, half)); });
    half == 0 ? multiply(part_of(all.rows(), rank, ranks)) : multiply_others(0);
    gather.wait();
  }
  multiply_others(1);
}

// As sum_to_own_rows, of a summand that `multiply` makes.
void sum_beside(const Tensor& summand, const MultiplyRows& multiply, const Tensor& own, const Compute& c) {
  Comm& comm = c.tensor->comm;
  const int ranks = comm.size();
  std::optional<PostedExchange> sum;
  for (const int half : {0, 1}) {
    for (int r = 0; r < ranks; ++r) multiply(half_of(part_of(summand.rows(), r, ranks), half));
    if (sum) sum->wait();
    sum.emplace(*c.tensor->beside, [&, half] { comm.reduce_scatter_sum(half_by_rank(summand, ranks, half)); });
  }
  sum->wait();
  const Interval mine = own_rows(summand.rows(), c);
  ops::copy(summand.rows_view(mine.begin, mine.end), own);
}

}  // namespace

// to = the product of `own` rows of all ranks, which it returns; beside their gather where the product is cut.
static Tensor gathered(const Linear& linear, ProductKind product, const Tensor& own, const Tensor& to,
                       const Compute& c) {
  const bool is_forward = product == ProductKind::forward;
  if (!c.tensor || !is_cut(linear, product, to.rows(), own.dtype(), c)) {
    const Tensor all = all_rows(own, to.rows(), c);
    is_forward ? linear_forward(linear, all, to, c) : linear_backward_input(linear, all, to, c);
    return all;
  }
  const Tensor all = room_with_own(own, to.rows(), c);
  gather_beside(all, is_forward ? forward_of(linear, all, to, c) : backward_input_of(linear, all, to, c), c);
  return all;
}

Tensor gathered_forward(const Linear& linear, const Tensor& own, const Tensor& y, const Compute& c) {
  return gathered(linear, ProductKind::forward, own, y, c);
}

Tensor gathered_backward_input(const Linear& linear, const Tensor& own, const Tensor& dx, const Compute& c) {
  return gathered(linear, ProductKind::input_gradient, own, dx, c);
}

void columns_forward(const Linear& linear, const Tensor& x, const Tensor& y, const Compute& c) {
  if (!c.tensor) return linear_forward(linear, x, y, c);
  Linear part = linear;
  if (c.tensor->comm.rank() > 0) part.bias = {};  // added once
  const Tensor summand = c.arena.allocate(y.dtype(), {x.rows(), y.shape()[1]}, MemoryClass::workspace);
  if (is_cut(part, ProductKind::forward, x.rows(), x.dtype(), c))
    return sum_beside(summand, forward_of(part, x, summand, c), y, c);
  linear_forward(part, x, summand, c);
  sum_to_own_rows(summand, y, c);
}

void rows_backward_input(const Linear& linear, const Tensor& dy, const Tensor& dx, const Compute& c) {
  if (!c.tensor) return linear_backward_input(linear, dy, dx, c);
  const Tensor summand = c.arena.allocate(dx.dtype(), {dy.rows(), dx.shape()[1]}, MemoryClass::workspace);
  if (is_cut(linear, ProductKind::input_gradient, dy.rows(), dy.dtype(), c))
    return sum_beside(summand, backward_input_of(linear, dy, summand, c), dx, c);
  linear_backward_input(linear, dy, summand, c);
  sum_to_own_rows(summand, dx, c);
}

}  // namespace tern
