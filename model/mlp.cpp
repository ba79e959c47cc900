#include "model/linear.h"
#include "model/ops.h"
#include "model/tensor_ranks.h"
#include "model/unit_impl.h"

namespace tern {

// n = norm(x),  a = up(n),  f = down(h)  with h = act(a), or act(gate)·up of a = (gate, up)
void mlp_forward_branch(const MlpSpec& u, const MlpWeights& w, int64_t T, const Tensor& x, const Tensor& out,
                        MlpSaved* saved, const Compute& c) {
  const DType dtype = x.dtype();
  NormStatistics stats;
  if (saved) stats = allocate_statistics(u.norm, x.rows(), dtype, c);
  Tensor up = c.arena.allocate(dtype, {T, w.up.out}, saved ? MemoryClass::activations : MemoryClass::workspace);
  gathered_forward(w.up, normed_rows(u.norm, w.norm, x, stats.mean_T, stats.rstd_T, c), up, c);
  if (saved) {
    saved->x_TD = x, saved->mean_T = stats.mean_T, saved->rstd_T = stats.rstd_T, saved->up_TG = up;
    saved->dup_TG = saved->hidden_TF = saved->dnormed_TD = {};
  }
  const Tensor hidden = c.arena.allocate(dtype, {T, u.hidden}, MemoryClass::workspace);
  ops::activation(u, up, hidden);
  up = {};
  columns_forward(w.down, hidden, out, c);
}

// dh = df·W_down,  da = dh·act'(a) (gated: dgate = dh·up·act'(gate), dup = dh·act(gate)),
// dn = da·W_up,  dx = norm'(dn)
// The rows of `up` become those of da, and those of dh the hidden ones, which the weights' gradients need.
void mlp_backward_branch(const MlpSpec& u, const MlpWeights& w, const Tensor& df, MlpSaved& saved, const Tensor& dx,
                         MemoryClass left, const Compute& c) {
  const int64_t T = saved.up_TG.rows();
  const DType dtype = df.dtype();
  saved.hidden_TF = c.arena.allocate(dtype, {T, u.hidden}, left);
  if (u.norm.present()) saved.dnormed_TD = c.arena.allocate(dtype, df.shape(), left);
  gathered_backward_input(w.down, df, saved.hidden_TF, c);
  ops::activation_backward(u, saved.up_TG, saved.hidden_TF, saved.hidden_TF, saved.up_TG);
  saved.dup_TG = std::move(saved.up_TG);
  if (!u.norm.present()) return rows_backward_input(w.up, saved.dup_TG, dx, c);
  rows_backward_input(w.up, saved.dup_TG, saved.dnormed_TD, c);
  ops::norm_backward_input(u.norm, w.norm, saved.dnormed_TD, saved.x_TD, saved.mean_T, saved.rstd_T, dx);
}

// dW_down += dfᵀ·h,  dW_up += daᵀ·n, biases their rows' sums; h and n are made again, with the bits of the forward,
// h by the backward of the rows
void mlp_weight_branch(const MlpSpec& u, const MlpWeights& w, const Tensor& df, const MlpSaved& saved, MlpWeights& g,
                       const Compute& c) {
  columns_backward_weight(w.down, df, saved.hidden_TF, g.down, c);
  const int64_t T = saved.dup_TG.rows();
  linear_backward_weight(w.up, saved.dup_TG, all_rows(normed_rows(u.norm, w.norm, saved.x_TD, {}, {}, c), T, c), g.up,
                         c);
  if (u.norm.present())
    ops::norm_backward_weight(u.norm, saved.dnormed_TD, saved.x_TD, saved.mean_T, saved.rstd_T, g.norm);
}

}  // namespace tern
