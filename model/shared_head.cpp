// The head where a group shares out the vocabulary. z_v = n·W_v of this rank's v; of all ranks M = max z, S = Σ exp(z - M):
//   L = log S + M - z_target,  dz = scale·(exp(z - M)/S - onehot),  dn = Σ over ranks dz·W,  dW += dzᵀ·n
// Source: Shoeybi et al. 2019, arXiv:1909.08053, §3, with one exchange for its three.

#include <algorithm>
#include <vector>

#include "base/wide_type.h"
#include "kernels/cpu/parallel.h"
#include "model/linear.h"
#include "model/ops.h"
#include "model/row_part_impl.h"
#include "model/tensor_ranks.h"
#include "model/unit_impl.h"
#include "spec/unit_cost.h"

namespace tern {
namespace {

// Logits (rows, this rank's vocabulary) become their gradients; Σ of the losses.
template <class T>
double shared_cross_entropy(std::span<const int32_t> targets, double scale, const Tensor& logits,
                            const TensorRanks& group) {
  const int64_t rows = logits.rows(), vocab = logits.shape()[1];
  const int ranks = group.comm.size(), rank = group.comm.rank();
  const std::span<T> z = logits.span<T>();
  const int64_t tokens = group.tokens.size();  // columns behind them are nobody's
  const auto row = [&](int64_t r) { return z.subspan(static_cast<size_t>(r * vocab), static_cast<size_t>(tokens)); };
  const auto own_target = [&](int64_t r) { return targets[static_cast<size_t>(r)] - group.tokens.begin; };
  std::vector<RowPart> parts(static_cast<size_t>(ranks * rows));  // rank after rank
  const auto each_row = [&](auto&& visit) {
    parallel_ranges(rows, 1, 1, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) visit(r);
    });
  };
  each_row([&](int64_t r) {
    if (tokens == 0 || targets[static_cast<size_t>(r)] < 0) return;
    const int64_t target = own_target(r);
    parts[static_cast<size_t>(rank * rows + r)] = part_of_row(row(r), target < tokens ? target : -1);
  });
  const Tensor exchanged = Tensor::borrow(DType::f64, {ranks, rows * kNumbersOfARow}, parts.data());
  RankParts by_rank(static_cast<size_t>(ranks));
  for (int r = 0; r < ranks; ++r) by_rank[static_cast<size_t>(r)].push_back(exchanged.rows_view(r, r + 1));
  group.comm.all_gather(by_rank);
  std::vector<double> losses(static_cast<size_t>(rows));
  each_row([&](int64_t r) {
    const std::span<T> own = row(r);
    std::ranges::fill(z.subspan(static_cast<size_t>(r * vocab + tokens), static_cast<size_t>(vocab - tokens)), T{0});
    if (targets[static_cast<size_t>(r)] < 0) return static_cast<void>(std::ranges::fill(own, T{0}));
    std::vector<RowPart> of_row;
    for (int k = 0; k < ranks; ++k) of_row.push_back(parts[static_cast<size_t>(k * rows + r)]);
    const RowPart all = joined(of_row);
    losses[static_cast<size_t>(r)] = loss_of_row(all);
    const auto factor = static_cast<T>(factor_of_part(of_row[static_cast<size_t>(rank)], all, scale));
    for (T& x : own) x *= factor;
    const int64_t target = own_target(r);
    if (target >= 0 && target < tokens) own[static_cast<size_t>(target)] -= static_cast<T>(scale);
  });
  double sum = 0;
  for (const double loss : losses) sum += loss;
  return sum;
}

}  // namespace

double shared_head_loss(const HeadSpec& u, const HeadWeights& w, const Tensor& x, std::span<const int32_t> targets,
                        double scale, HeadSaved& saved, HeadWeights& gradients, const Compute& c) {
  const auto T = static_cast<int64_t>(targets.size());
  const int64_t D = u.width, V = w.projection.out;
  const DType dtype = x.dtype(), sums = wide_type(dtype);
  const NormStatistics stats = allocate_statistics(u.norm, x.rows(), dtype, c);
  saved = {.x_TD = x,
           .mean_T = stats.mean_T,
           .rstd_T = stats.rstd_T,
           .dnormed_TD = c.arena.allocate(dtype, x.shape(), MemoryClass::activations)};
  if (T == 0) return 0;
  const Tensor normed = c.arena.allocate(dtype, {T, D}, MemoryClass::workspace);
  const Tensor summand = c.arena.allocate(dtype, {T, D}, MemoryClass::workspace);
  const Interval mine = own_rows(T, c);
  const Tensor own = normed.rows_view(mine.begin, mine.end);
  ops::norm(u.norm, w.norm, x, own, stats.mean_T, stats.rstd_T);
  if (u.multiplier != 1) ops::scale(u.multiplier, own);
  complete_rows(normed, c);

  const int64_t rows = std::min(T, kHeadTile);
  const Tensor logits_tile = c.arena.allocate(sums, {rows, V}, MemoryClass::workspace);
  const Tensor rounded_tile = dtype == sums ? Tensor{} : c.arena.allocate(dtype, {rows, V}, MemoryClass::workspace);
  const Tensor capped_tile = u.softcap != 0 ? c.arena.allocate(sums, {rows, V}, MemoryClass::workspace) : Tensor{};
  const Tensor scratch = forward_scratch(w.projection, widest_tile(w.projection, T, dtype, c.multiply), dtype, c);
  double loss = 0;
  for (int64_t begin = 0; begin < T; begin += rows) {
    const int64_t end = std::min(begin + rows, T), m = end - begin;
    const Tensor logits = logits_tile.rows_view(0, m), tile = normed.rows_view(begin, end);
    linear_forward(w.projection, tile, logits, scratch, c);
    Tensor capped;
    if (u.softcap != 0) {
      ops::softcap(u.softcap, logits);
      ops::copy(logits, capped = capped_tile.rows_view(0, m));
    }
    const auto target = targets.subspan(static_cast<size_t>(begin), static_cast<size_t>(m));
    loss += sums == DType::f64 ? shared_cross_entropy<double>(target, scale, logits, *c.tensor)
                               : shared_cross_entropy<float>(target, scale, logits, *c.tensor);
    if (u.softcap != 0) ops::softcap_backward(u.softcap, capped, logits);
    Tensor dlogits = logits;
    if (!rounded_tile.empty()) ops::round_to(logits, dlogits = rounded_tile.rows_view(0, m));
    linear_backward_input(w.projection, dlogits, summand.rows_view(begin, end), c);
    linear_backward_weight(w.projection, dlogits, tile, gradients.projection, c);
  }
  sum_to_own_rows(summand, saved.dnormed_TD, c);
  if (u.multiplier != 1) ops::scale(u.multiplier, saved.dnormed_TD);
  return loss;
}

}  // namespace tern
