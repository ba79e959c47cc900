// The head where a group shares out the vocabulary. z_v = n·W_v of this rank's v; of all ranks M = max z, S = Σ exp(z - M):
//   L = log S + M - z_target,  dz = scale·(exp(z - M)/S - onehot),  dn = Σ over ranks dz·W,  dW += dzᵀ·n
// Source: Shoeybi et al. 2019, arXiv:1909.08053, §3, with one exchange for its three.

#include <algorithm>
#include <vector>

#include "base/wide_type.h"
#include "kernels/cpu/head_loss.h"
#include "kernels/cpu/parallel.h"
#include "model/linear.h"
#include "model/ops.h"
#include "model/row_part_impl.h"
#include "model/tensor_ranks.h"
#include "model/unit_impl.h"
#include "spec/unit_cost.h"
#include "tensor/bytes_of.h"

namespace tern {
namespace {

// The rows of all ranks, rank after rank; each has filled in its own.
void exchange(std::vector<RowPart>& parts, Comm& comm) {
  const int64_t ranks = comm.size(), numbers = std::ssize(parts) / ranks * kNumbersOfARow;
  const Tensor exchanged = Tensor::borrow(DType::f64, {ranks, numbers}, parts.data());
  RankParts by_rank;
  for (int64_t r = 0; r < ranks; ++r) by_rank.push_back({exchanged.rows_view(r, r + 1)});
  comm.all_gather(by_rank);
}
RowPart joined(std::span<const RowPart> parts, int64_t row, int64_t rows) {
  std::vector<RowPart> of_row;
  for (int64_t at = row; at < std::ssize(parts); at += rows) of_row.push_back(parts[static_cast<size_t>(at)]);
  return joined(of_row);
}

// Logits (rows, this rank's vocabulary) become their gradients; Σ of the losses.
template <class T>
double shared_cross_entropy(std::span<const int32_t> targets, double scale, const Tensor& logits,
                            const TensorRanks& group) {
  const int64_t rows = logits.rows(), vocab = logits.shape()[1];
  const int ranks = group.comm.size(), rank = group.comm.rank();
  const std::span<T> z = logits.span<T>();
  const int64_t tokens = group.tokens.size();  // columns behind them are nobody's
  const auto row = [&](int64_t r) { return z.subspan(static_cast<size_t>(r * vocab), static_cast<size_t>(tokens)); };
  const auto own_target = [&](int64_t r) { return place_in_part(group.tokens, targets[static_cast<size_t>(r)]); };
  std::vector<RowPart> parts(static_cast<size_t>(ranks * rows));  // rank after rank
  const auto each_row = [&](auto&& visit) {
    parallel_ranges(rows, 1, 1, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) visit(r);
    });
  };
  each_row([&](int64_t r) {
    if (tokens == 0 || targets[static_cast<size_t>(r)] < 0) return;
    parts[static_cast<size_t>(rank * rows + r)] = part_of_row(row(r), own_target(r));
  });
  exchange(parts, group.comm);
  std::vector<double> losses(static_cast<size_t>(rows));
  each_row([&](int64_t r) {
    const std::span<T> own = row(r);
    std::ranges::fill(z.subspan(static_cast<size_t>(r * vocab + tokens), static_cast<size_t>(vocab - tokens)), T{0});
    if (targets[static_cast<size_t>(r)] < 0) return static_cast<void>(std::ranges::fill(own, T{0}));
    const RowPart all = joined(parts, r, rows);
    losses[static_cast<size_t>(r)] = loss_of_row(all);
    const auto factor = static_cast<T>(factor_of_part(parts[static_cast<size_t>(rank * rows + r)], all, scale));
    for (T& x : own) x *= factor;
    if (const int64_t target = own_target(r); target >= 0) own[static_cast<size_t>(target)] -= static_cast<T>(scale);
  });
  double sum = 0;
  for (const double loss : losses) sum += loss;
  return sum;
}

// normed, summand (all tokens, width). Tile by tile, with logits in memory.
double loss_by_tiles(const HeadSpec& u, const HeadWeights& w, const Tensor& normed, std::span<const int32_t> targets,
                     double scale, const Linear& gradient, const Tensor& summand, const Compute& c) {
  const DType dtype = normed.dtype(), sums = wide_type(dtype);
  const int64_t T = normed.rows(), V = w.projection.out, rows = std::min(T, kHeadTile);
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
    linear_backward_weight(w.projection, dlogits, tile, gradient, c);
  }
  return loss;
}

// The same in one kernel per tile of rows, where the multiplier has it.
double fused_shared_loss(const HeadWeights& w, const Tensor& normed, std::span<const int32_t> targets, double scale,
                         const Linear& gradient, const Tensor& summand, int64_t scratch_bytes, const Compute& c) {
  const TensorRanks& group = *c.tensor;
  const int64_t T = normed.rows(), D = normed.shape()[1], rows = std::min(T, kFusedHeadTile);
  const int64_t tokens = group.tokens.size(), ranks = group.comm.size(), rank = group.comm.rank();
  const Tensor scratch = c.arena.bytes(scratch_bytes, MemoryClass::workspace);
  double loss = 0;
  for (int64_t begin = 0; begin < T; begin += rows) {
    const int64_t end = std::min(begin + rows, T), m = end - begin;
    std::vector<int32_t> own;
    for (const int32_t target : targets.subspan(static_cast<size_t>(begin), static_cast<size_t>(m))) {
      const int64_t at = place_in_part(group.tokens, target);
      own.push_back(target < 0 ? -1 : at < 0 ? kTargetElsewhere : static_cast<int32_t>(at));
    }
    const auto join = [&](std::span<float> lse, std::span<float> minus_target) {
      std::vector<RowPart> parts(static_cast<size_t>(ranks * m));  // rank after rank
      for (size_t r = 0; r < lse.size(); ++r)
        if (tokens > 0)
          parts[static_cast<size_t>(rank * m) + r] = {.most = lse[r], .sum = 1, .target = -minus_target[r]};
      exchange(parts, group.comm);
      for (size_t r = 0; r < lse.size(); ++r) {
        if (own[r] < 0) continue;
        const RowPart all = joined(parts, static_cast<int64_t>(r), m);
        lse[r] = static_cast<float>(all.most + std::log(all.sum));
        loss += loss_of_row(all);
      }
    };
    std::vector<float> unused(own.size());  // the losses are summed above
    head_loss(tokens, D, own, static_cast<float>(scale), normed.rows_view(begin, end).span<bf16>(),
              dense_rows(w.projection).rows_view(0, tokens).span<bf16>(), unused,
              summand.rows_view(begin, end).span<bf16>(), dense_rows(gradient).rows_view(0, tokens).span<float>(),
              bytes_of(scratch), join);
  }
  return loss;
}

}  // namespace

double shared_head_loss(const HeadSpec& u, const HeadWeights& w, const Tensor& x, std::span<const int32_t> targets,
                        double scale, HeadSaved& saved, HeadWeights& gradients, const Compute& c) {
  const auto T = static_cast<int64_t>(targets.size());
  const int64_t D = u.width;
  const DType dtype = x.dtype();
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

  int64_t fused = 0;
  if (const ScratchBytes bytes = scratch_bytes(c.multiply, dtype);
      bytes && u.softcap == 0 && is_trained(gradients.projection))
    fused = bytes(ProductKind::head_loss, std::min(T, kFusedHeadTile), w.projection.out, D);
  const double loss = fused > 0 ? fused_shared_loss(w, normed, targets, scale, gradients.projection, summand, fused, c)
                                : loss_by_tiles(u, w, normed, targets, scale, gradients.projection, summand, c);
  sum_to_own_rows(summand, saved.dnormed_TD, c);
  if (u.multiplier != 1) ops::scale(u.multiplier, saved.dnormed_TD);
  return loss;
}

}  // namespace tern
