#include "model/linear.h"
#include "model/ops.h"
#include "model/unit_impl.h"

namespace tern {

// n = norm(x),  a = up(n),  y = x + down(h)  with h = act(a), or act(gate)·up of a = (gate, up)
Tensor mlp_forward(const MlpSpec& u, const MlpWeights& w, const Tensor& x, MlpSaved* saved, const Compute& c) {
  const int64_t T = x.rows();
  const DType dtype = x.dtype();
  const Tensor y = c.arena.allocate(dtype, x.shape(), MemoryClass::activations);
  NormStatistics stats;
  if (saved) stats = allocate_statistics(u.norm, T, dtype, c);
  Tensor up = c.arena.allocate(dtype, {T, w.up.out}, saved ? MemoryClass::activations : MemoryClass::workspace);
  {
    const Tensor normed = c.arena.allocate(dtype, x.shape(), MemoryClass::workspace);
    ops::norm(u.norm, w.norm, x, normed, stats.mean_T, stats.rstd_T);
    linear_forward(w.up, normed, up, c);
  }
  if (saved)
    *saved = {.x_TD = x, .mean_T = stats.mean_T, .rstd_T = stats.rstd_T, .up_TG = up, .dup_TG = {}, .dnormed_TD = {}};
  const Tensor hidden = c.arena.allocate(dtype, {T, u.hidden}, MemoryClass::workspace);
  ops::activation(u, up, hidden);
  up = {};
  linear_forward(w.down, hidden, y, c);
  ops::add(x, y);
  return y;
}

// dh = dy·W_down,  da = dh·act'(a) (gated: dgate = dh·up·act'(gate), dup = dh·act(gate)),
// dn = da·W_up,  dx = dy + norm'(dn)
Tensor mlp_backward_input(const MlpSpec& u, const MlpWeights& w, const Tensor& dy, MlpSaved& saved, const Compute& c) {
  const int64_t T = dy.rows();
  const DType dtype = dy.dtype();
  const Tensor dx = c.arena.allocate(dtype, dy.shape(), MemoryClass::activations);
  saved.dup_TG = c.arena.allocate(dtype, saved.up_TG.shape(), MemoryClass::activations);
  saved.dnormed_TD = c.arena.allocate(dtype, dy.shape(), MemoryClass::activations);
  {
    const Tensor dhidden = c.arena.allocate(dtype, {T, u.hidden}, MemoryClass::workspace);
    linear_backward_input(w.down, dy, dhidden, c);
    ops::activation_backward(u, saved.up_TG, dhidden, saved.dup_TG);
  }
  linear_backward_input(w.up, saved.dup_TG, saved.dnormed_TD, c);
  ops::norm_backward_input(u.norm, w.norm, saved.dnormed_TD, saved.x_TD, saved.mean_T, saved.rstd_T, dx);
  ops::add(dy, dx);
  return dx;
}

// dW_down += dyᵀ·h,  dW_up += daᵀ·n, biases their rows' sums; h and n are made again, with the bits of the forward
void mlp_backward_weight(const MlpSpec& u, const MlpWeights& w, const Tensor& dy, const MlpSaved& saved, MlpWeights& g,
                         const Compute& c) {
  {
    const Tensor hidden = c.arena.allocate(dy.dtype(), {dy.rows(), u.hidden}, MemoryClass::workspace);
    ops::activation(u, saved.up_TG, hidden);
    linear_backward_weight(dy, hidden, g.down, c);
  }
  const Tensor normed = c.arena.allocate(dy.dtype(), dy.shape(), MemoryClass::workspace);
  ops::norm(u.norm, w.norm, saved.x_TD, normed, {}, {});
  linear_backward_weight(saved.dup_TG, normed, g.up, c);
  ops::norm_backward_weight(u.norm, saved.dnormed_TD, saved.x_TD, saved.mean_T, saved.rstd_T, g.norm);
}

}  // namespace tern
