// What stands around the branches of a block: the residual stream, and how f(x) joins it (JoinSpec).

#include "model/ops.h"
#include "model/unit_impl.h"

namespace tern {

namespace {

// Where a branch writes: into y, or where the joining norm finds it later.
Tensor branch_result(const JoinSpec& j, const Tensor& y, JoinSaved* saved, const Compute& c) {
  if (!saved || !j.norm.present()) return y;
  const NormStatistics stats = allocate_statistics(j.norm, y.rows(), y.dtype(), c);
  *saved = {c.arena.allocate(y.dtype(), y.shape(), MemoryClass::activations), stats.mean_T, stats.rstd_T};
  return saved->x_TD;
}

// y = x + m·f,  y = x + norm(f),  or y = norm(x + f). f is y, or what branch_result gave.
void join_forward(const JoinSpec& j, const NormWeights& w, const Tensor& x, const Tensor& f, const Tensor& y,
                  const JoinSaved* saved) {
  if (!j.norm.present()) {
    if (j.multiplier != 1) ops::scale(j.multiplier, f);
    return ops::add(x, f);
  }
  if (j.of_sum) ops::add(x, f);
  ops::norm(j.norm, w, f, y, saved ? saved->mean_T : Tensor{}, saved ? saved->rstd_T : Tensor{});
  if (!j.of_sum) ops::add(x, y);
}

// The gradient of f: dy, m·dy, or through the norm.
Tensor join_backward(const JoinSpec& j, const NormWeights& w, const Tensor& dy, const JoinSaved& saved,
                     const Compute& c) {
  if (!j.norm.present() && j.multiplier == 1) return dy;
  const Tensor df = c.arena.allocate(dy.dtype(), dy.shape(), MemoryClass::workspace);
  if (j.norm.present()) {
    ops::norm_backward_input(j.norm, w, dy, saved.x_TD, saved.mean_T, saved.rstd_T, df);
  } else {
    ops::copy(dy, df);
    ops::scale(j.multiplier, df);
  }
  return df;
}

void join_weight(const JoinSpec& j, const Tensor& dy, const JoinSaved& saved, NormWeights& g) {
  if (j.norm.present()) ops::norm_backward_weight(j.norm, dy, saved.x_TD, saved.mean_T, saved.rstd_T, g);
}

}  // namespace

Tensor normed_rows(const NormSpec& norm, const NormWeights& w, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                   const Compute& c) {
  if (!norm.present()) return x;
  const Tensor normed = c.arena.allocate(x.dtype(), x.shape(), MemoryClass::workspace);
  ops::norm(norm, w, x, normed, mean, rstd);
  return normed;
}

Tensor attention_unit_forward(const AttentionSpec& u, const ModelSpec& spec, const AttentionWeights& w,
                              const Rows& rows, const Tensor& x, AttentionSaved* saved, KvView* kv, int layer,
                              const Compute& c) {
  const Tensor y = c.arena.allocate(x.dtype(), x.shape(), MemoryClass::activations);
  JoinSaved join;
  const Tensor f = branch_result(u.join, y, saved ? &join : nullptr, c);
  attention_forward_branch(u, spec, w, rows, x, f, saved, kv, layer, c);
  join_forward(u.join, w.join_norm, x, f, y, saved ? &join : nullptr);
  if (saved) saved->join = join;
  return y;
}

// dx = dy + the branch's part; of a normed sum, df + the branch's part
Tensor attention_unit_backward_input(const AttentionSpec& u, const ModelSpec& spec, const AttentionWeights& w,
                                     const Rows& rows, const Tensor& dy, AttentionSaved& saved, MemoryClass left,
                                     const Compute& c) {
  const Tensor dx = c.arena.allocate(dy.dtype(), dy.shape(), MemoryClass::activations);
  const Tensor df = join_backward(u.join, w.join_norm, dy, saved.join, c);
  attention_backward_branch(u, spec, w, rows, df, saved, dx, left, c);
  ops::add(u.join.of_sum ? df : dy, dx);
  return dx;
}

void attention_unit_backward_weight(const AttentionSpec& u, const AttentionWeights& w, const Tensor& dy,
                                    const AttentionSaved& saved, AttentionWeights& g, const Compute& c) {
  attention_weight_branch(u, w, join_backward(u.join, w.join_norm, dy, saved.join, c), saved, g, c);
  join_weight(u.join, dy, saved.join, g.join_norm);
}

Tensor mlp_forward(const MlpSpec& u, const MlpWeights& w, int64_t rows, const Tensor& x, MlpSaved* saved,
                   const Compute& c) {
  const Tensor y = c.arena.allocate(x.dtype(), x.shape(), MemoryClass::activations);
  JoinSaved join;
  const Tensor f = branch_result(u.join, y, saved ? &join : nullptr, c);
  mlp_forward_branch(u, w, rows, x, f, saved, c);
  join_forward(u.join, w.join_norm, x, f, y, saved ? &join : nullptr);
  if (saved) saved->join = join;
  return y;
}

Tensor mlp_backward_input(const MlpSpec& u, const MlpWeights& w, const Tensor& dy, MlpSaved& saved, MemoryClass left,
                          const Compute& c) {
  const Tensor dx = c.arena.allocate(dy.dtype(), dy.shape(), MemoryClass::activations);
  const Tensor df = join_backward(u.join, w.join_norm, dy, saved.join, c);
  mlp_backward_branch(u, w, df, saved, dx, left, c);
  ops::add(u.join.of_sum ? df : dy, dx);
  return dx;
}

void mlp_backward_weight(const MlpSpec& u, const MlpWeights& w, const Tensor& dy, const MlpSaved& saved, MlpWeights& g,
                         const Compute& c) {
  mlp_weight_branch(u, w, join_backward(u.join, w.join_norm, dy, saved.join, c), saved, g, c);
  join_weight(u.join, dy, saved.join, g.join_norm);
}

// y = x + attention(norm(x)) + mlp(norm(x))
Tensor parallel_forward(const ParallelSpec& u, const ModelSpec& spec, const ParallelWeights& w, const Rows& rows,
                        const Tensor& x, ParallelSaved* saved, KvView* kv, int layer, const Compute& c) {
  const Tensor y = c.arena.allocate(x.dtype(), x.shape(), MemoryClass::activations);
  attention_forward_branch(u.attention, spec, w.attention, rows, x, y, saved ? &saved->attention : nullptr, kv, layer,
                           c);
  const Tensor other = c.arena.allocate(x.dtype(), x.shape(), MemoryClass::workspace);
  const auto T = static_cast<int64_t>(rows.tokens.size());
  mlp_forward_branch(u.mlp, w.mlp, T, x, other, saved ? &saved->mlp : nullptr, c);
  ops::add(other, y);
  ops::add(x, y);
  return y;
}

Tensor parallel_backward_input(const ParallelSpec& u, const ModelSpec& spec, const ParallelWeights& w, const Rows& rows,
                               const Tensor& dy, ParallelSaved& saved, MemoryClass left, const Compute& c) {
  const Tensor dx = c.arena.allocate(dy.dtype(), dy.shape(), MemoryClass::activations);
  attention_backward_branch(u.attention, spec, w.attention, rows, dy, saved.attention, dx, left, c);
  const Tensor other = c.arena.allocate(dy.dtype(), dy.shape(), MemoryClass::workspace);
  mlp_backward_branch(u.mlp, w.mlp, dy, saved.mlp, other, left, c);
  ops::add(other, dx);
  ops::add(dy, dx);
  return dx;
}

// A shared norm is one storage under two names: both parts of its gradient are added to it.
void parallel_backward_weight(const ParallelSpec& u, const ParallelWeights& w, const Tensor& dy,
                              const ParallelSaved& saved, ParallelWeights& g, const Compute& c) {
  attention_weight_branch(u.attention, w.attention, dy, saved.attention, g.attention, c);
  mlp_weight_branch(u.mlp, w.mlp, dy, saved.mlp, g.mlp, c);
}

}  // namespace tern
