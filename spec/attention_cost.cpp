// Closed forms of attention: parameters, FLOPs and bytes of queries, keys and values, whole or through latent rows.
#include <algorithm>

#include "base/error.h"
#include "spec/norm_widths.h"
#include "spec/unit_cost_impl.h"
#include "spec/unit_parts.h"

namespace tern::closed_forms {
namespace {

// Norms of queries and keys: their weights, statistics, and the gradients of the weights, which BACKWARD_INPUT makes.
struct HeadNorms {
  int64_t parameters = 0, saved = 0, left = 0, turned = 0;
};
HeadNorms head_norms(const AttentionSpec& u, const Sizes& z) {
  if (u.head_norm == HeadNormKind::none) return {};
  const int64_t weights = u.query_norm_width() + u.key_norm_width();
  return {weights, z.T * (u.query_norms() + u.key_norms()) * z.g, weights * z.g, z.T * u.qkv_rows() * z.s};
}

// Where keys and values go round: two blocks of them; forward the sums apart from what is rounded; backward two blocks' gradients and dq, in
// the type of sums. Where nothing is saved the passes' lse beside what others have.
struct RingTemporaries {
  int64_t forward = 0, backward = 0, lse = 0;
};
RingTemporaries ring_temporaries(const AttentionSpec& u, const Sizes& z) {
  if (!z.ring) return {};
  const int64_t rows = z.T * u.heads * u.head_dim * z.g, keys = 2 * z.T * 2 * u.kv_heads * u.head_dim;
  return {keys * z.s + (z.s < z.g ? rows : 0), keys * (z.s + z.g) + rows, z.T * u.heads * z.g};
}

// Latent attention: rq and rk the ranks, rr = rk + rotary elements of the narrow row, Q = heads·head_dim, U rows of the
// matrix that makes keys and values, V of the output's. The narrow rows' matrices are whole on every rank.
// Longer than a screen: one sum per figure of a unit, each beside the others that it is read against.
UnitCost latent_cost(const AttentionSpec& u, const Sizes& z) {
  TERN_CHECK(u.join == JoinSpec{} && u.head_norm == HeadNormKind::none && u.relative == 0 && !u.cross && !u.sinks,
             "unit_cost: latent attention has no join, head norms, relative positions, encoder or sinks");
  const LatentSpec& l = u.latent;
  const int64_t T = z.T, N = z.N, D = u.width, E = u.heads * u.head_dim, C = u.qkv_rows(), s = z.s, g = z.g;
  const int64_t rq = l.query_rank, rk = l.kv_rank, rr = rk + l.rotary, Q = E, U = u.heads * (l.plain + l.value);
  const int64_t V = u.value_rows(), in = rq ? rq : D, normed = u.norm.present() ? N * D * s : 0;
  const int64_t values = V == E ? 0 : T * V * s, gathered = z.gathered(D), row = T * s;
  // Where rows are swapped for heads, as of other attention; the output's matrix reads `read` bytes.
  const int64_t swapped = z.swaps ? row * C : 0, back = z.swaps ? row * E : 0, read = V == E ? back : values;
  const RingTemporaries ring = ring_temporaries(u, z);
  const auto with_rank = [&](int64_t bytes) { return rq ? bytes : 0; };
  const auto without = [&](int64_t bytes) { return rq ? 0 : bytes; };
  using enum AdaptedModule;
  const AdaptedMatrix to_rq = z.matrix(query_down, rq), to_q = z.matrix(query_up, Q), to_rr = z.matrix(kv_down, rr),
                      to_u = z.matrix(kv_up, U), to_d = z.matrix(out, D);
  UnitCost c;
  c.parameters = norm_parameters(u.norm) + with_rank(rq * D + rq + (u.qkv_bias ? rq : 0)) + Q * in + rr * D + rk +
                 (u.qkv_bias ? rr : 0) + U * rk + D * V + (u.out_bias ? D : 0);
  c.output_bytes = N * D * s;
  const int64_t narrow = row * (rr + rq);
  // rstd, qkv, context, lse; the narrow rows and their norms' statistics
  c.saved_bytes = norm_saved(u.norm, z) + row * (C + E) + T * u.heads * g + narrow + T * g + with_rank(T * g);
  c.left_bytes = row * C + normed + narrow + (rk + rq) * g;  // dqkv, dnormed, those of the narrow rows and norms
  const auto projecting = [&](int64_t kept) {                // kept: 1 if the narrow rows are workspace here
    return std::max({normed + gathered + kept * row * rr + z.forward(T, to_rr, D),
                     with_rank(normed + gathered + kept * narrow + z.forward(T, to_rq, D)),
                     without(normed + gathered + kept * row * rr + row * Q + z.forward(T, to_q, D)),
                     with_rank(kept * narrow + row * (rq + Q) + z.forward(T, to_q, rq)),
                     kept * narrow + row * (rk + U) + z.forward(T, to_u, rk)});
  };
  c.forward_workspace = std::max(
      {swapped + projecting(0), 2 * swapped, 2 * back, back + gathered + values + z.forward(T, to_d, V), ring.forward});
  c.unsaved_workspace = std::max({row * C + projecting(1), 2 * swapped, row * (C + E) + ring.lse + ring.forward,
                                  2 * back, gathered + row * E + values + z.forward(T, to_d, V)});
  c.backward_input_workspace =
      std::max({gathered + row * E + std::max(values + z.input_gradient(T, to_d, V), ring.backward), 2 * back,
                back + swapped, 2 * swapped, row * (U + rk) + z.input_gradient(T, to_u, rk), row * 2 * rk,
                row * Q + z.input_gradient(T, to_q, in), with_rank(z.input_gradient(T, to_rq, D)),
                row * D + gathered + z.input_gradient(T, to_rr, D)});
  c.backward_weight_workspace = std::max(
      {2 * back, back + values, gathered + read + z.weight_gradient(T, to_d, V),
       row * (rk + U) + z.weight_gradient(T, to_u, rk), with_rank(row * (rq + Q) + z.weight_gradient(T, to_q, rq)),
       normed + gathered +
           std::max({z.weight_gradient(T, to_rr, D), with_rank(z.weight_gradient(T, to_rq, D)),
                     without(row * Q + z.weight_gradient(T, to_q, D))})});
  const int64_t products = 2 * T * (rq * D + Q * in + rr * D + U * rk + D * V);
  c.forward_flops = products + 4 * z.P * E;
  c.backward_input_flops = products + 10 * z.P * E;
  c.backward_weight_flops = products;
  const int64_t weights = c.parameters * s, moved = row * (2 * (rq + rr + Q + U) + C + 2 * E + 2 * V + 2 * D);
  c.forward_bytes_moved = weights + moved + N * kNormWidths.forward * D * s;
  c.backward_input_bytes_moved = weights + moved + row * (2 * C + E) + N * kNormWidths.backward_input * D * s;
  c.backward_weight_bytes_moved = 2 * c.parameters * g + moved + N * kNormWidths.backward_weight * D * s;
  Adapter a;
  add_adapter(a, T, to_rq, D);
  add_adapter(a, T, to_q, in);
  add_adapter(a, T, to_rr, D);
  add_adapter(a, T, to_u, rk);
  add_adapter(a, T, to_d, V);
  finish(c, a, z);
  return c;
}

}  // namespace

UnitCost attention_cost(const AttentionSpec& whole, const Sizes& z) {
  const AttentionSpec u = with_own_heads(whole, z.query.tensor);
  if (u.latent.present()) return latent_cost(u, z);
  const int64_t T = z.T, N = z.N, D = u.width, E = u.heads * u.head_dim, C = u.qkv_rows(), s = z.s;
  const int64_t normed = u.norm.present() ? N * D * s : 0;  // without a norm it is x itself
  const AdaptedMatrix qkv = qkv_matrix(z.adapters, E, u.kv_heads * u.head_dim), out = z.matrix(AdaptedModule::out, D);
  const Join join = cost_of(u.join, z, D);
  const HeadNorms heads = head_norms(u, z);
  const RingTemporaries ring = ring_temporaries(u, z);
  const int64_t sinks = u.sinks ? u.heads : 0;
  const int64_t lse = std::max(T * sinks * z.g, ring.lse);  // sinks need it where nothing is saved, too
  UnitCost c;
  c.parameters = norm_parameters(u.norm) + C * D + (u.qkv_bias ? C : 0) + D * E + (u.out_bias ? D : 0) +
                 u.relative * u.heads + sinks + heads.parameters + join.parameters;
  c.output_bytes = N * D * s * (u.cross ? 2 : 1);  // the encoder's output goes on
  // rstd, qkv, context, lse; what the joining norm and the heads' norms need
  c.saved_bytes = norm_saved(u.norm, z) + T * C * s + T * E * s + T * u.heads * z.g + join.saved + heads.saved;
  c.left_bytes = T * C * s + normed + heads.left + sinks * z.g;  // dqkv, dnormed
  const int64_t gathered = z.gathered(D);
  // Where rows are swapped for heads: qkv and context before and after it, and what travels, by turns. With norms of heads qkv stays as it
  // is, and a prepared copy is swapped, in the backward once more.
  const int64_t in = z.swaps ? T * C * s : 0, back = z.swaps ? T * E * s : 0, again = z.swaps ? heads.turned : 0;
  c.forward_workspace =
      std::max({in - again + normed + gathered + z.forward(T, qkv, D),  // normed while qkv is made
                heads.turned + ring.forward, 2 * in, 2 * back, back + gathered + z.forward(T, out, E)});
  c.unsaved_workspace =
      std::max({normed + gathered + T * C * s + z.forward(T, qkv, D), 2 * in, T * (C + E) * s + lse + ring.forward,
                2 * back, gathered + T * E * s + z.forward(T, out, E)});
  c.backward_input_workspace =
      join.workspace +
      std::max({gathered + T * E * s + std::max(z.input_gradient(T, out, E), heads.turned + ring.backward),  // dcontext
                2 * back, back + in + again, 2 * in, gathered + z.input_gradient(T, qkv, D)});
  c.backward_weight_workspace = join.workspace + std::max({2 * back, back + gathered + z.weight_gradient(T, out, E),
                                                           normed + gathered + z.weight_gradient(T, qkv, D)});

  c.forward_exchanged = c.backward_input_exchanged = c.backward_weight_exchanged = 2 * gathered;
  const int64_t products = 2 * T * D * (C + E);
  c.forward_flops = products + 4 * z.P * E;          // q·k and p·v
  c.backward_input_flops = products + 10 * z.P * E;  // scores again, dp, dv, dq, dk
  c.backward_weight_flops = products;
  const int64_t weights = c.parameters * s, rows = T * s, own = N * s;
  c.forward_bytes_moved = weights + rows * (2 * D + 2 * C + 2 * E) + own * kNormWidths.forward * D;
  c.backward_input_bytes_moved = weights + rows * (2 * D + 3 * C + 3 * E) + own * kNormWidths.backward_input * D;
  c.backward_weight_bytes_moved =
      2 * c.parameters * z.g + rows * (2 * D + C + E) + own * kNormWidths.backward_weight * D;
  Adapter a;
  add_adapter(a, T, qkv, D);
  add_adapter(a, T, out, E);
  finish(c, a, z);
  return c;
}

}  // namespace tern::closed_forms
