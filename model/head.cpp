#include <algorithm>
#include <type_traits>
#include <vector>

#include "base/wide_type.h"
#include "kernels/cpu/head_loss.h"
#include "model/linear.h"
#include "model/ops.h"
#include "model/tensor_ranks.h"
#include "model/unit_impl.h"
#include "spec/unit_cost.h"
#include "tensor/bytes_of.h"

namespace tern {

namespace {

Tensor view_or_none(const Tensor& t, int64_t begin, int64_t end) {
  return t.empty() ? Tensor{} : t.rows_view(begin, end);
}

double sum_of(const Tensor& losses) {
  double sum = 0;
  ops::by_dtype(losses.dtype(), [&]<class T>() {
    if constexpr (!std::is_same_v<T, bf16>)
      for (const T loss : losses.span<T>()) sum += loss;
  });
  return sum;
}

// A row without a loss adds nothing to any gradient. So tiles take the rows that have one, in their order, and as many others as fill the last
// of them, whose scratch is that of a whole tile. Rows behind the last whole tile are all taken.
class TiledRows {
 public:
  TiledRows(std::span<const int32_t> targets, int64_t tile) : of_all_(std::ssize(targets)) {
    const int64_t whole = of_all_ - of_all_ % tile;
    const int64_t with_loss = std::count_if(targets.begin(), targets.begin() + whole, [](int32_t t) { return t >= 0; });
    int64_t others = std::max<int64_t>(1, (with_loss + tile - 1) / tile) * tile - with_loss;
    for (int64_t row = 0; row < of_all_; ++row) {
      const int32_t target = targets[static_cast<size_t>(row)];
      if (target < 0 && row < whole && others-- <= 0) continue;
      rows_.push_back(row), targets_.push_back(target);
    }
  }
  int64_t size() const { return std::ssize(rows_); }
  bool are_all() const { return size() == of_all_; }
  int64_t row(int64_t at) const { return rows_[static_cast<size_t>(at)]; }
  std::span<const int32_t> targets(int64_t begin, int64_t end) const {
    return std::span(targets_).subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  }
  // The norms of rows [begin, end) of those that are taken.
  void norm(const HeadSpec& u, const HeadWeights& w, const Tensor& x, int64_t begin, int64_t end, const Tensor& normed,
            const Tensor& mean, const Tensor& rstd) const {
    for (int64_t at = begin, next = 0; at < end; at = next) {
      const int64_t row = this->row(at);
      for (next = at + 1; next < end && this->row(next) == row + next - at;) ++next;
      const int64_t behind = row + next - at;
      ops::norm(u.norm, w.norm, x.rows_view(row, behind), normed.rows_view(at - begin, next - begin),
                view_or_none(mean, row, behind), view_or_none(rstd, row, behind));
    }
    if (u.multiplier != 1) ops::scale(u.multiplier, normed);
  }
  // Moves the first rows of t, one for each that is taken, to their places; all other rows become zeros.
  void put_back(const Tensor& t) const {
    int64_t end = of_all_;
    for (int64_t at = size() - 1; at >= 0 && !are_all(); --at) {
      const int64_t row = this->row(at);
      if (row != at) ops::copy(t.rows_view(at, at + 1), t.rows_view(row, row + 1));
      if (row + 1 < end) t.rows_view(row + 1, end).fill_zero();
      end = row;
    }
    if (end > 0 && !are_all()) t.rows_view(0, end).fill_zero();
  }

 private:
  int64_t of_all_;
  std::vector<int64_t> rows_;
  std::vector<int32_t> targets_;
};

// The same in one kernel per tile of rows, where the multiplier has it.
double fused_loss(const HeadSpec& u, const HeadWeights& w, const Tensor& x, std::span<const int32_t> targets,
                  double scale, const HeadSaved& saved, const Linear& gradient, int64_t scratch_bytes,
                  const Compute& c) {
  const int64_t rows = std::min(x.rows(), kFusedHeadTile);
  const TiledRows tiled(targets, rows);
  const Tensor normed_tile = c.arena.allocate(x.dtype(), {rows, u.width}, MemoryClass::workspace);
  const Tensor scratch = c.arena.bytes(scratch_bytes, MemoryClass::workspace);
  std::vector<float> losses(static_cast<size_t>(rows));
  double loss = 0;
  for (int64_t begin = 0; begin < tiled.size(); begin += rows) {
    const int64_t end = std::min(begin + rows, tiled.size()), m = end - begin;
    const Tensor normed = normed_tile.rows_view(0, m);
    tiled.norm(u, w, x, begin, end, normed, saved.mean_T, saved.rstd_T);
    const std::span<float> tile_losses(losses.data(), static_cast<size_t>(m));
    head_loss(u.vocab, u.width, tiled.targets(begin, end), static_cast<float>(scale), normed.span<bf16>(),
              dense_rows(w.projection).span<bf16>(), tile_losses, saved.dnormed_TD.rows_view(begin, end).span<bf16>(),
              dense_rows(gradient).span<float>(), bytes_of(scratch));
    if (u.multiplier != 1) ops::scale(u.multiplier, saved.dnormed_TD.rows_view(begin, end));
    for (const float one : tile_losses) loss += one;
  }
  tiled.put_back(saved.dnormed_TD);
  return loss;
}

}  // namespace

int64_t widest_tile(const Linear& projection, int64_t T, DType dtype, Multiply multiply) {
  const int64_t tile = std::min(T, kHeadTile), tail = T % kHeadTile;
  const auto of = [&](int64_t m) { return forward_scratch_bytes(projection, m, dtype, multiply); };
  return of(tail) > of(tile) ? tail : tile;
}

// n = norm(x),  z = m·n·Wᵀ (m falls on n),  under a cap z' = c·tanh(z/c) and dz = dz'·(1 - (z'/c)²),  L = Σ_t (log Σ_v
// exp z_tv - z_t,target) dz = scale·(softmax(z) - onehot(target)),  dn = dz·W,  dW += dzᵀ·n, tile by tile of rows in
// ascending order; rows without a loss that no tile takes have dn = 0
double head_forward_loss(const ModelSpec& spec, const HeadWeights& w, const Rows&, const Tensor& x,
                         std::span<const int32_t> targets, double scale, HeadSaved& saved, HeadWeights& gradients,
                         const Compute& c) {
  const HeadSpec& u = spec.head();
  if (c.tensor) return shared_head_loss(u, w, x, targets, scale, saved, gradients, c);
  const int64_t T = x.rows(), D = u.width;
  const DType dtype = x.dtype(), sums = wide_type(dtype);
  TERN_CHECK(static_cast<int64_t>(targets.size()) == T, "head: {} targets for {} rows", targets.size(), T);
  const NormStatistics stats = allocate_statistics(u.norm, T, dtype, c);
  saved = {.x_TD = x,
           .mean_T = stats.mean_T,
           .rstd_T = stats.rstd_T,
           .dnormed_TD = c.arena.allocate(dtype, {T, D}, MemoryClass::activations)};
  if (T == 0) return 0;
  for (const Tensor& one : {stats.mean_T, stats.rstd_T})  // of rows that no tile takes
    if (!one.empty()) one.fill_zero();
  if (const ScratchBytes bytes = scratch_bytes(c.multiply, dtype);
      bytes && u.softcap == 0 && is_trained(gradients.projection))
    if (const int64_t fused = bytes(ProductKind::head_loss, std::min(T, kFusedHeadTile), u.vocab, D); fused > 0)
      return fused_loss(u, w, x, targets, scale, saved, gradients.projection, fused, c);

  const Linear projection = readable(w.projection, dtype, c);
  const int64_t rows = std::min(T, kHeadTile);
  const Tensor normed_tile = c.arena.allocate(dtype, {rows, D}, MemoryClass::workspace);
  const Tensor logits_tile = c.arena.allocate(sums, {rows, u.vocab}, MemoryClass::workspace);
  const Tensor rounded_tile =
      dtype == sums ? Tensor{} : c.arena.allocate(dtype, {rows, u.vocab}, MemoryClass::workspace);
  const Tensor scratch = forward_scratch(projection, widest_tile(projection, T, dtype, c.multiply), dtype, c);
  const Tensor capped_tile =
      u.softcap != 0 ? c.arena.allocate(sums, {rows, u.vocab}, MemoryClass::workspace) : Tensor{};
  std::vector<std::byte> loss_bytes(static_cast<size_t>(rows * size_of(sums)));
  const TiledRows tiled(targets, rows);
  double loss = 0;
  for (int64_t begin = 0; begin < tiled.size(); begin += rows) {
    const int64_t end = std::min(begin + rows, tiled.size()), m = end - begin;
    const Tensor normed = normed_tile.rows_view(0, m), logits = logits_tile.rows_view(0, m);
    const Tensor losses = Tensor::borrow(sums, {m}, loss_bytes.data());
    tiled.norm(u, w, x, begin, end, normed, stats.mean_T, stats.rstd_T);
    linear_forward(projection, normed, logits, scratch, c);
    Tensor capped;
    if (u.softcap != 0) {
      ops::softcap(u.softcap, logits);
      ops::copy(logits, capped = capped_tile.rows_view(0, m));
    }
    ops::cross_entropy_forward_backward(tiled.targets(begin, end), scale, logits, losses);
    if (u.softcap != 0) ops::softcap_backward(u.softcap, capped, logits);
    loss += sum_of(losses);

    Tensor dlogits = logits;
    if (!rounded_tile.empty()) ops::round_to(logits, dlogits = rounded_tile.rows_view(0, m));
    linear_backward_input(projection, dlogits, saved.dnormed_TD.rows_view(begin, end), c);
    if (u.multiplier != 1) ops::scale(u.multiplier, saved.dnormed_TD.rows_view(begin, end));
    linear_backward_weight(projection, dlogits, normed, gradients.projection, c);
  }
  tiled.put_back(saved.dnormed_TD);
  return loss;
}

// dx = norm'(dn)
Tensor head_backward_input(const HeadSpec& u, const HeadWeights& w, const HeadSaved& saved, const Compute& c) {
  const Tensor dx = c.arena.allocate(saved.x_TD.dtype(), saved.x_TD.shape(), MemoryClass::activations);
  ops::norm_backward_input(u.norm, w.norm, saved.dnormed_TD, saved.x_TD, saved.mean_T, saved.rstd_T, dx);
  return dx;
}

void head_backward_weight(const HeadSpec& u, const HeadSaved& saved, HeadWeights& g) {
  ops::norm_backward_weight(u.norm, saved.dnormed_TD, saved.x_TD, saved.mean_T, saved.rstd_T, g.norm);
}

std::vector<double> head_losses(const ModelSpec& spec, WeightSource weights, const Tensor& x,
                                std::span<const int32_t> targets, const Compute& c) {
  const HeadSpec& u = spec.head();
  const WeightLease lease = weights.acquire(static_cast<int>(spec.units.size()) - 1);
  const auto& w = std::get<HeadWeights>(*lease);
  const int64_t T = x.rows();
  TERN_CHECK(static_cast<int64_t>(targets.size()) == T, "head: {} targets for {} rows", targets.size(), T);
  std::vector<double> result(static_cast<size_t>(T));
  if (T == 0) return result;

  const Linear projection = readable(w.projection, x.dtype(), c);
  const int64_t rows = std::min(T, kHeadTile);
  const DType sums = wide_type(x.dtype());
  const Tensor normed_tile = c.arena.allocate(x.dtype(), {rows, u.width}, MemoryClass::workspace);
  const Tensor logits_tile = c.arena.allocate(sums, {rows, u.vocab}, MemoryClass::workspace);
  const Tensor scratch = forward_scratch(projection, widest_tile(projection, T, x.dtype(), c.multiply), x.dtype(), c);
  std::vector<std::byte> loss_bytes(static_cast<size_t>(rows * size_of(sums)));
  const TiledRows tiled(targets, rows);
  for (int64_t begin = 0; begin < tiled.size(); begin += rows) {
    const int64_t end = std::min(begin + rows, tiled.size()), m = end - begin;
    const Tensor normed = normed_tile.rows_view(0, m), logits = logits_tile.rows_view(0, m);
    const Tensor losses = Tensor::borrow(sums, {m}, loss_bytes.data());
    tiled.norm(u, w, x, begin, end, normed, {}, {});
    linear_forward(projection, normed, logits, scratch, c);
    if (u.softcap != 0) ops::softcap(u.softcap, logits);
    ops::cross_entropy(tiled.targets(begin, end), logits, losses);
    for (int64_t r = 0; r < m; ++r)
      result[static_cast<size_t>(tiled.row(begin + r))] = sums == DType::f64
                                                              ? losses.span<double>()[static_cast<size_t>(r)]
                                                              : losses.span<float>()[static_cast<size_t>(r)];
  }
  return result;
}

Tensor head_logits(const ModelSpec& spec, WeightSource weights, const Tensor& x, std::span<const int32_t> rows,
                   const Compute& c) {
  const HeadSpec& u = spec.head();
  const WeightLease lease = weights.acquire(static_cast<int>(spec.units.size()) - 1);
  const auto& w = std::get<HeadWeights>(*lease);
  const auto num = static_cast<int64_t>(rows.size());
  for (const int32_t r : rows) TERN_CHECK(0 <= r && r < x.rows(), "head: row {} of {}", r, x.rows());
  const Tensor logits = c.arena.allocate(wide_type(x.dtype()), {num, u.vocab}, MemoryClass::activations);
  const Tensor picked = c.arena.allocate(x.dtype(), {num, u.width}, MemoryClass::workspace);
  const Tensor normed = c.arena.allocate(x.dtype(), {num, u.width}, MemoryClass::workspace);
  ops::gather_rows(x, rows, picked);
  ops::norm(u.norm, w.norm, picked, normed, {}, {});
  if (u.multiplier != 1) ops::scale(u.multiplier, normed);
  linear_forward(w.projection, normed, logits, c);
  if (u.softcap != 0) ops::softcap(u.softcap, logits);
  return logits;
}

}  // namespace tern
