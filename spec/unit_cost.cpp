#include "spec/unit_cost.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "spec/context_cost.h"
#include "spec/unit_parts.h"

namespace tern {

namespace {

constexpr ProductKind kForward = ProductKind::forward, kInputGradient = ProductKind::input_gradient,
                      kWeightGradient = ProductKind::weight_gradient, kHeadLoss = ProductKind::head_loss,
                      kExpertForward = ProductKind::expert_forward, kDecoded = ProductKind::decoded;

// Letters: T tokens, N of them in the norms' regions, D width, E = heads·head_dim, C = (heads + 2·kv_heads)·head_dim,
// F hidden, G = 2F gated or F, V vocab, r an adapter's rank, s bytes of a weight or activation, g bytes of a gradient or
// statistic. Heads, hidden widths and vocabulary are those of one rank.
struct Sizes {
  int64_t T, N, P, s, g;
  const UnitAdapters& adapters;
  bool frozen, coded;
  const CostQuery& query;
  bool swaps;  // rows for heads
  // Products by what they are: scratch(kForward, rows, out, in).
  int64_t operator()(ProductKind product, int64_t m, int64_t n, int64_t k) const {
    return query.scratch && m ? query.scratch(product, m, n, k) : 0;
  }
  // Of a matrix of the model's own, which may stand in codes.
  int64_t own(ProductKind product, int64_t m, int64_t n, int64_t k) const {
    if (!coded) return (*this)(product, m, n, k);
    const int64_t rows = (*this)(kDecoded, m, n, k);
    return rows ? rows + (*this)(product, m, n, k) : 0;
  }
  AdaptedMatrix matrix(AdaptedModule module, int64_t rows) const { return adapted_matrix(adapters, module, rows); }
  // The most that a product of m rows with a matrix of depth k takes beside its operands: its own scratch; after it
  // those of its adapters in turn, with the rows h = A·x and what passes through them. With magnitudes the factors of rows
  // are there throughout.
  int64_t forward(int64_t m, const AdaptedMatrix& w, int64_t k) const {
    return with_factors(forward_of_branches(m, w, k), w, k);
  }
  int64_t input_gradient(int64_t m, const AdaptedMatrix& w, int64_t k) const {
    const auto branch = [&](const AdaptedMatrix::Part& p) {  // what adds to dx needs none
      return m * p.rank * s + std::max(cut(m, p.rows, w) + (*this)(kInputGradient, m, p.rows, p.rank), read(m, k, p));
    };
    return with_factors(scaled(m, w) + with_branches(own(kInputGradient, m, w.rows, k), w, branch), w, k);
  }
  int64_t weight_gradient(int64_t m, const AdaptedMatrix& w, int64_t k) const {
    const auto branch = [&](const AdaptedMatrix::Part& p) {
      const int64_t from = read(m, k, p), in = k / p.pool, r = p.rank;
      const int64_t with_rows = std::max({from + (*this)(kForward, m, r, in), (*this)(kWeightGradient, m, p.rows, r),
                                          (*this)(kInputGradient, m, p.rows, r)});
      return m * r * s + std::max(cut(m, p.rows, w) + with_rows, from + (*this)(kWeightGradient, m, r, in));
    };
    const int64_t gradients =
        scaled(m, w) + with_branches(frozen ? 0 : (*this)(kWeightGradient, m, w.rows, k), w, branch);
    // A magnitude's gradient needs y again.
    const int64_t again = has_magnitudes(w) ? m * w.rows * s + forward_of_branches(m, w, k) : 0;
    return with_factors(std::max(gradients, again), w, k);
  }
  int64_t forward_of_branches(int64_t m, const AdaptedMatrix& w, int64_t k) const {
    const auto branch = [&](const AdaptedMatrix::Part& p) {
      return m * p.rank * s + std::max(read(m, k, p) + (*this)(kForward, m, p.rank, k / p.pool),
                                       m * p.rows * s + (*this)(kForward, m, p.rows, p.rank));
    };
    return with_branches(own(kForward, m, w.rows, k), w, branch);
  }
  template <class Branch>
  int64_t with_branches(int64_t most, const AdaptedMatrix& w, Branch&& branch) const {
    for (const AdaptedMatrix::Part& p : w.parts)
      if (p.rank && p.rows) most = std::max(most, branch(p));
    return most;
  }
  // What A reads, where it is not x itself: means, or what dropout leaves; or the gradients of it.
  int64_t read(int64_t m, int64_t k, const AdaptedMatrix::Part& p) const {
    return p.pool == 1 && !p.dropout ? 0 : m * (k / p.pool) * s;
  }
  // The columns of dy that belong to one part, where there are others.
  int64_t cut(int64_t m, int64_t n, const AdaptedMatrix& w) const { return n == w.rows ? 0 : m * n * s; }
  static bool has_magnitudes(const AdaptedMatrix& w) {
    return std::ranges::any_of(w.parts, [](const AdaptedMatrix::Part& p) { return p.magnitude && p.rows; });
  }
  // dy by the factors of rows.
  int64_t scaled(int64_t m, const AdaptedMatrix& w) const { return has_magnitudes(w) ? m * w.rows * s : 0; }
  // Beside a pass: factors and lengths of rows, in f64; before it A·wᵀ of all parts, from which they are made.
  int64_t with_factors(int64_t pass, const AdaptedMatrix& w, int64_t k) const {
    int64_t rows = 0, ranks = 0, stacked = 0, parts = 0;
    for (const AdaptedMatrix::Part& p : w.parts)
      if (p.magnitude && p.rows) rows += 16 * p.rows, ranks += p.rank, ++parts;
    if (ranks == 0) return pass;
    if (parts > 1) stacked = ranks * k * s;
    return rows + std::max(pass, stacked + ranks * w.rows * g + own(kForward, ranks, w.rows, k));
  }
  bool split() const { return query.tensor > 1; }
  // Rows that all ranks of a tensor group hold together while a product reads or writes them, beside their own part.
  int64_t gathered(int64_t width) const { return split() ? T * width * s : 0; }
};

// weight, and the bias of a layer norm; in a row: rstd, and the mean of a layer norm
int64_t norm_vectors(const NormSpec& n) { return n.kind == NormKind::none ? 0 : n.kind == NormKind::layer ? 2 : 1; }
int64_t norm_parameters(const NormSpec& n) { return n.width * norm_vectors(n); }
int64_t norm_saved(const NormSpec& n, const Sizes& z) { return z.N * z.g * norm_vectors(n); }

// How a branch joins the stream: with a norm the branch's result is kept; its gradient is made again in each pass
// unless it is dy itself.
struct Join {
  int64_t parameters, saved, workspace;
};
Join cost_of(const JoinSpec& j, const Sizes& z, int64_t width) {
  const int64_t rows = z.N * width * z.s;
  if (!j.norm.present()) return {0, 0, j.multiplier == 1 ? 0 : rows};
  return {norm_parameters(j.norm), rows + norm_saved(j.norm, z), rows};
}
// Norms of queries and keys: their weights, statistics, and the gradients of the weights, which BACKWARD_INPUT makes.
struct HeadNorms {
  int64_t parameters = 0, saved = 0, left = 0, turned = 0;
};
HeadNorms head_norms(const AttentionSpec& u, const Sizes& z) {
  if (u.head_norm == HeadNormKind::none) return {};
  const int64_t weights = u.query_norm_width() + u.key_norm_width();
  return {weights, z.T * (u.query_norms() + u.key_norms()) * z.g, weights * z.g, z.T * u.qkv_rows() * z.s};
}

// What a product of (rows, in) with an (out, in) matrix brings beside itself when parts carry adapters of rank r: A (r, in)
// and B (part, r) each. Nothing is saved: the backward makes A·x again.
struct Adapter {
  int64_t parameters = 0, flops = 0, squares = 0;  // squares: bytes of Σ w² of rows with a magnitude
};
void add_adapter(Adapter& a, int64_t rows, const AdaptedMatrix& w, int64_t in, int64_t copies = 1) {
  for (const auto& [n, r, pool, magnitude, dropout] : w.parts) {
    if (n == 0) continue;
    a.parameters += copies * (r * (n + in / pool) + (magnitude ? n : 0));
    a.flops += 2 * rows * r * (n + in / pool) + (magnitude ? 2 * r * w.rows * in : 0);
    if (magnitude) a.squares += 8 * n;
  }
}

// Parameters in all, and what is trained: everything, or the adapters alone.
void finish(UnitCost& c, const Adapter& a, const Sizes& z) {
  c.trained = (z.frozen ? 0 : c.parameters) + a.parameters;
  c.parameters += a.parameters;
  c.parameter_bytes = a.squares;
  c.forward_flops += a.flops, c.backward_input_flops += a.flops;
  c.backward_weight_flops =
      (z.frozen ? 0 : c.backward_weight_flops) + 2 * a.flops;  // both products of h, h and dh again
}

UnitCost cost(const EmbedSpec& u, const Sizes& z) {
  UnitCost c;
  c.parameters = (parts_of(u.vocab, z.query.tensor) + u.positions + u.token_types) * u.width;
  const int64_t tables = 1 + (u.positions ? 1 : 0) + (u.token_types ? 1 : 0);
  c.output_bytes = z.N * u.width * z.s;
  if (u.norm.present()) c.parameters += norm_parameters(u.norm), c.saved_bytes = c.output_bytes + norm_saved(u.norm, z);
  c.forward_workspace = c.unsaved_workspace = z.gathered(u.width);  // partial rows before their sum
  c.forward_exchanged = c.backward_weight_exchanged = z.gathered(u.width);
  c.forward_bytes_moved = c.output_bytes * 2 * tables;
  c.backward_weight_workspace = z.gathered(u.width) + (u.norm.present() || u.multiplier != 1 ? z.N * u.width * z.s : 0);
  c.backward_weight_bytes_moved = z.T * u.width * (z.s + 2 * z.g) * tables;
  finish(c, {}, z);
  return c;
}

UnitCost cost(const BridgeSpec& u, const Sizes& z) {
  UnitCost c;
  c.parameters = norm_parameters(u.norm);
  c.output_bytes = 2 * z.N * u.width * z.s;  // the encoder's output and the decoder's input travel together
  c.saved_bytes = norm_saved(u.norm, z);
  c.left_bytes = z.N * u.width * z.s;
  c.forward_workspace = c.unsaved_workspace = z.gathered(u.width);
  c.forward_bytes_moved = 2 * c.output_bytes;
  c.backward_input_bytes_moved = 2 * c.output_bytes;
  c.backward_weight_bytes_moved = z.T * u.width * (z.s + 2 * z.g);
  finish(c, {}, z);
  return c;
}

// Latent attention: rq and rk the ranks, rr = rk + rotary elements of the narrow row, Q = heads·head_dim, U rows of the
// matrix that makes keys and values, V of the output's. The narrow rows' matrices are whole on every rank.
// Longer than a screen: one sum per figure of a unit, each beside the others that it is read against.
UnitCost latent_cost(const AttentionSpec& u, const Sizes& z) {
  TERN_CHECK(u.join == JoinSpec{} && u.head_norm == HeadNormKind::none && u.relative == 0 && !u.cross,
             "unit_cost: latent attention has no join, head norms, relative positions or encoder");
  const LatentSpec& l = u.latent;
  const int64_t T = z.T, N = z.N, D = u.width, E = u.heads * u.head_dim, C = u.qkv_rows(), s = z.s, g = z.g;
  const int64_t rq = l.query_rank, rk = l.kv_rank, rr = rk + l.rotary, Q = E, U = u.heads * (l.plain + l.value);
  const int64_t V = u.value_rows(), in = rq ? rq : D, normed = u.norm.present() ? N * D * s : 0;
  const int64_t values = V == E ? 0 : T * V * s, gathered = z.gathered(D), row = T * s;
  // Where rows are swapped for heads, as of other attention; the output's matrix reads `read` bytes.
  const int64_t swapped = z.swaps ? row * C : 0, back = z.swaps ? row * E : 0, read = V == E ? back : values;
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
  c.forward_workspace =
      std::max({swapped + projecting(0), 2 * swapped, 2 * back, back + gathered + values + z.forward(T, to_d, V)});
  c.unsaved_workspace = std::max({row * C + projecting(1), 2 * swapped, row * (C + E), 2 * back,
                                  gathered + row * E + values + z.forward(T, to_d, V)});
  c.backward_input_workspace =
      std::max({gathered + row * E + values + z.input_gradient(T, to_d, V), 2 * back, back + swapped, 2 * swapped,
                row * (U + rk) + z.input_gradient(T, to_u, rk), row * 2 * rk, row * Q + z.input_gradient(T, to_q, in),
                with_rank(z.input_gradient(T, to_rq, D)), row * D + gathered + z.input_gradient(T, to_rr, D)});
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
  c.forward_bytes_moved = weights + moved + N * 3 * D * s;
  c.backward_input_bytes_moved = weights + moved + row * (2 * C + E) + N * 3 * D * s;
  c.backward_weight_bytes_moved = 2 * c.parameters * g + moved + N * 4 * D * s;
  Adapter a;
  add_adapter(a, T, to_rq, D);
  add_adapter(a, T, to_q, in);
  add_adapter(a, T, to_rr, D);
  add_adapter(a, T, to_u, rk);
  add_adapter(a, T, to_d, V);
  finish(c, a, z);
  return c;
}

UnitCost cost(const AttentionSpec& whole, const Sizes& z) {
  const AttentionSpec u = part_of(whole, z.query.tensor);
  if (u.latent.present()) return latent_cost(u, z);
  const int64_t T = z.T, N = z.N, D = u.width, E = u.heads * u.head_dim, C = u.qkv_rows(), s = z.s;
  const int64_t normed = u.norm.present() ? N * D * s : 0;  // without a norm it is x itself
  const AdaptedMatrix qkv = qkv_matrix(z.adapters, E, u.kv_heads * u.head_dim), out = z.matrix(AdaptedModule::out, D);
  const Join join = cost_of(u.join, z, D);
  const HeadNorms heads = head_norms(u, z);
  UnitCost c;
  c.parameters = norm_parameters(u.norm) + C * D + (u.qkv_bias ? C : 0) + D * E + (u.out_bias ? D : 0) +
                 u.relative * u.heads + heads.parameters + join.parameters;
  c.output_bytes = N * D * s * (u.cross ? 2 : 1);  // the encoder's output goes on
  // rstd, qkv, context, lse; what the joining norm and the heads' norms need
  c.saved_bytes = norm_saved(u.norm, z) + T * C * s + T * E * s + T * u.heads * z.g + join.saved + heads.saved;
  c.left_bytes = T * C * s + normed + heads.left;  // dqkv, dnormed
  const int64_t gathered = z.gathered(D);
  // Where rows are swapped for heads: qkv and context before and after it, and what travels, by turns. With norms of heads qkv stays as it
  // is, and a prepared copy is swapped, in the backward once more.
  const int64_t in = z.swaps ? T * C * s : 0, back = z.swaps ? T * E * s : 0, again = z.swaps ? heads.turned : 0;
  c.forward_workspace = std::max({in - again + normed + gathered + z.forward(T, qkv, D),  // normed while qkv is made
                                  heads.turned, 2 * in, 2 * back, back + gathered + z.forward(T, out, E)});
  c.unsaved_workspace = std::max({normed + gathered + T * C * s + z.forward(T, qkv, D), 2 * in, T * (C + E) * s,
                                  2 * back, gathered + T * E * s + z.forward(T, out, E)});
  c.backward_input_workspace =
      join.workspace +
      std::max({gathered + T * E * s + std::max(z.input_gradient(T, out, E), heads.turned),  // dcontext
                2 * back, back + in + again, 2 * in, gathered + z.input_gradient(T, qkv, D)});
  c.backward_weight_workspace = join.workspace + std::max({2 * back, back + gathered + z.weight_gradient(T, out, E),
                                                           normed + gathered + z.weight_gradient(T, qkv, D)});

  c.forward_exchanged = c.backward_input_exchanged = c.backward_weight_exchanged = 2 * gathered;
  const int64_t products = 2 * T * D * (C + E);
  c.forward_flops = products + 4 * z.P * E;          // q·k and p·v
  c.backward_input_flops = products + 10 * z.P * E;  // scores again, dp, dv, dq, dk
  c.backward_weight_flops = products;
  const int64_t weights = c.parameters * s, rows = T * s, own = N * s;
  c.forward_bytes_moved = weights + rows * (2 * D + 2 * C + 2 * E) + own * 3 * D;
  c.backward_input_bytes_moved = weights + rows * (2 * D + 3 * C + 3 * E) + own * 3 * D;
  c.backward_weight_bytes_moved = 2 * c.parameters * z.g + rows * (2 * D + C + E) + own * 4 * D;
  Adapter a;
  add_adapter(a, T, qkv, D);
  add_adapter(a, T, out, E);
  finish(c, a, z);
  return c;
}

UnitCost cost(const MlpSpec& u, const Sizes& z) {
  const int64_t T = z.T, N = z.N, D = u.width, F = parts_of(u.hidden, z.query.tensor), G = u.gated ? 2 * F : F, s = z.s;
  const int64_t normed = u.norm.present() ? N * D * s : 0;
  const AdaptedMatrix up = up_matrix(z.adapters, F, u.gated), down = z.matrix(AdaptedModule::down, D);
  const Join join = cost_of(u.join, z, D);
  UnitCost c;
  c.parameters = norm_parameters(u.norm) + G * D + D * F + (u.bias ? G + D : 0) + join.parameters;
  c.output_bytes = N * D * s;
  c.saved_bytes = norm_saved(u.norm, z) + T * G * s + join.saved;  // rstd, up before the activation, then dup
  c.left_bytes = T * F * s + normed;                               // hidden, dnormed
  const int64_t gathered = z.gathered(D);
  c.forward_workspace = std::max(normed + gathered + z.forward(T, up, D), gathered + T * F * s + z.forward(T, down, F));
  c.unsaved_workspace = std::max({normed + gathered + T * G * s + z.forward(T, up, D), T * (G + F) * s,
                                  gathered + T * F * s + z.forward(T, down, F)});
  c.backward_input_workspace =
      join.workspace + gathered + std::max(z.input_gradient(T, down, F), z.input_gradient(T, up, D));
  c.backward_weight_workspace =
      join.workspace + gathered + std::max(z.weight_gradient(T, down, F), normed + z.weight_gradient(T, up, D));

  c.forward_exchanged = c.backward_input_exchanged = c.backward_weight_exchanged = 2 * gathered;
  c.forward_flops = c.backward_input_flops = c.backward_weight_flops = 2 * T * D * (G + F);
  const int64_t weights = c.parameters * s, rows = T * s, own = N * s;
  c.forward_bytes_moved = weights + rows * (2 * D + 2 * G + 2 * F) + own * 3 * D;
  c.backward_input_bytes_moved = weights + rows * (2 * D + 3 * G + 3 * F) + own * 3 * D;
  c.backward_weight_bytes_moved = 2 * c.parameters * z.g + rows * (2 * D + G + F) + own * 4 * D;
  Adapter a;
  add_adapter(a, T, up, D);
  add_adapter(a, T, down, F);
  finish(c, a, z);
  return c;
}

// One after the other into one result; the MLP's waits in a tensor of its own.
UnitCost cost(const ParallelSpec& u, const Sizes& z) {
  UnitCost c = cost(u.attention, z);
  const UnitCost m = cost(u.mlp, z);
  const int64_t rows = z.N * u.mlp.width * z.s;
  // What the MLP keeps begins after attention's temporaries have gone; those of swaps are the most beside anything.
  const int64_t later = z.swaps ? 0 : m.saved_bytes, left_later = z.swaps ? 0 : m.left_bytes;
  c.forward_workspace = std::max(c.forward_workspace - later, rows + m.forward_workspace);
  c.unsaved_workspace = std::max(c.unsaved_workspace, rows + m.unsaved_workspace);
  c.backward_input_workspace = std::max(c.backward_input_workspace - left_later, rows + m.backward_input_workspace);
  c.backward_weight_workspace = std::max(c.backward_weight_workspace, m.backward_weight_workspace);
  const int64_t shared = u.shared_norm ? norm_parameters(u.attention.norm) : 0;
  c.parameter_bytes += m.parameter_bytes;
  c.parameters += m.parameters - shared, c.trained += m.trained - (z.frozen ? 0 : shared);
  c.saved_bytes += m.saved_bytes, c.left_bytes += m.left_bytes;
  c.forward_exchanged += m.forward_exchanged, c.backward_input_exchanged += m.backward_input_exchanged;
  c.backward_weight_exchanged += m.backward_weight_exchanged;
  c.forward_flops += m.forward_flops, c.backward_input_flops += m.backward_input_flops;
  c.backward_weight_flops += m.backward_weight_flops;
  c.forward_bytes_moved += m.forward_bytes_moved + 2 * rows;
  c.backward_input_bytes_moved += m.backward_input_bytes_moved + 2 * rows;
  c.backward_weight_bytes_moved += m.backward_weight_bytes_moved;
  return c;
}

// R rows at this rank's experts, X experts at it, K = top_k. The experts' products are the exact multiplier's, whoever
// multiplies the rest: their rows differ from step to step, which a library that compiles for a shape does not like.
// Longer than a screen: one sum per figure of a unit, each beside the others that it is read against.
UnitCost cost(const MoeSpec& u, const Sizes& z) {
  const CostQuery& q = z.query;
  const int64_t T = z.T, N = z.N, D = u.width, s = z.s, g = z.g, R = expert_rows(u, q), K = u.top_k, E = u.experts;
  const int64_t X = parts_of(u.experts, q.expert), F = parts_of(u.hidden, q.expert_tensor), G = u.gated ? 2 * F : F;
  const int64_t S = parts_of(u.shared_hidden, q.tensor), Gs = u.gated ? 2 * S : S;
  const bool gate = S && u.shared_gate;
  const auto shared = [&](int64_t bytes) { return S ? bytes : 0; };
  const auto gated = [&](int64_t bytes) { return gate ? bytes : 0; };
  UnitCost c;
  c.expert_parameters = X * (G * D + D * F);
  c.parameters = norm_parameters(u.norm) + D * E + c.expert_parameters + Gs * D + D * S + (gate ? D : 0);
  c.output_bytes = N * D * s;
  // Probabilities, weights of the chosen; which, where their rows are, whose rows they are, where an expert's begin.
  const int64_t routing = N * E * g + N * K * (g + 8) + R * 4 + (X + 1) * 4 + gated(T * g);
  const int64_t sent = q.expert > 1 ? R * D * s : 0;  // rows of other ranks' tokens are kept, own ones gathered again
  c.saved_bytes = norm_saved(u.norm, z) + routing + sent + R * G * s + T * Gs * s;  // up before the activation
  const int64_t normed = u.norm.present() ? N * D * s : 0, gathered = shared(z.gathered(D));
  // dup, dnormed, dlogits; of the shared MLP and its gate
  c.left_bytes = R * G * s + sent + normed + N * E * s + T * Gs * s + gated(T * s);
  const int64_t rows = R * D * s, hidden = R * F * s, shared_hidden = T * S * s;
  const auto experts = [&](int64_t out, int64_t in) { return z(kExpertForward, R, out, in); };
  const int64_t at_input = std::max({z(kForward, N, E, D), shared(shared_hidden + z(kForward, T, D, S)), rows});
  c.forward_workspace =
      std::max({normed + gathered + std::max({at_input, shared(z(kForward, T, Gs, D)), gated(z(kForward, T, 1, D))}),
                rows + experts(G, D), hidden + rows + experts(D, F)});
  c.unsaved_workspace =
      routing + sent +
      std::max({normed + gathered + at_input,
                normed + gathered +
                    shared(T * Gs * s + std::max({z(kForward, T, Gs, D), gated(z(kForward, T, 1, D)), shared_hidden})),
                rows + R * G * s + experts(G, D), R * G * s + hidden, hidden + rows + experts(D, F)});
  c.backward_input_workspace =
      std::max({rows + hidden, 2 * hidden + N * K * g, rows + N * K * g,
                gathered + shared(shared_hidden + z(kInputGradient, T, D, S)), gated(2 * shared_hidden + T * g),
                N * D * s + gathered +
                    std::max({z(kInputGradient, N, E, D), shared(z(kInputGradient, T, Gs, D)),
                              gated(z(kInputGradient, T, 1, D))})});
  c.backward_weight_workspace =
      std::max({hidden + rows, normed + rows,
                normed + gathered +
                    std::max({z(kWeightGradient, N, E, D), shared(z(kWeightGradient, T, Gs, D)),
                              gated(z(kWeightGradient, T, 1, D))}),
                gathered + shared(shared_hidden + gated(T * D * s) + z(kWeightGradient, T, D, S))});

  const int64_t products = 2 * R * D * (G + F) + 2 * T * D * (Gs + S) + 2 * N * D * E + gated(2 * T * D);
  c.forward_flops = c.backward_input_flops = c.backward_weight_flops = products;
  const int64_t weights = c.parameters * s;
  const int64_t moved = (R * (4 * D + 2 * G + 2 * F) + T * (2 * Gs + 2 * S)) * s + N * 5 * D * s;
  c.forward_bytes_moved = weights + moved;
  c.backward_input_bytes_moved = weights + moved + R * (G + F) * s;
  c.backward_weight_bytes_moved = 2 * c.parameters * g + moved;
  Adapter a;  // one per expert; each row meets one expert's
  const AdaptedMatrix down = z.matrix(AdaptedModule::down, D);
  add_adapter(a, R, up_matrix(z.adapters, F, u.gated), D, X);
  add_adapter(a, R, down, F, X);
  c.expert_trained = (z.frozen ? 0 : c.expert_parameters) + a.parameters;
  c.expert_parameters += a.parameters;
  if (S) add_adapter(a, T, up_matrix(z.adapters, S, u.gated), D), add_adapter(a, T, down, S);
  finish(c, a, z);
  return c;
}

UnitCost cost(const HeadSpec& u, const Sizes& z) {
  const int64_t T = z.T, D = u.width, V = parts_of(u.vocab, z.query.tensor);
  const int64_t tile = std::min(T, kHeadTile), tail = T % kHeadTile;
  const bool rounded = z.s < z.g;  // bf16: the logits' gradient is rounded before it is multiplied
  UnitCost c;
  c.parameters = norm_parameters(u.norm) + (u.tied ? 0 : V * D);
  c.output_bytes = 0;
  c.saved_bytes = norm_saved(u.norm, z) + z.N * D * z.s;          // rstd, dnormed
  const int64_t decoded = z.coded ? z(kDecoded, tile, V, D) : 0;  // once, for all tiles
  const auto widest = [&](ProductKind product) {
    return z.coded && decoded == 0 ? 0 : std::max(z(product, tile, V, D), z(product, tail, V, D));
  };
  // A tile's normed rows and logits; what the forward product needs is held for all tiles (exact: the packed
  // projection). Split over ranks: all normed rows instead, and the partial sums of their gradients.
  const int64_t normed = z.split() ? 2 * z.gathered(D) : tile * D * z.s;
  c.unsaved_workspace = decoded + normed + tile * V * z.g + widest(kForward);
  c.forward_workspace = c.unsaved_workspace + (rounded ? tile * V * z.s : 0) + (u.softcap != 0 ? tile * V * z.g : 0) +
                        std::max(widest(kInputGradient), z.frozen ? 0 : widest(kWeightGradient));
  const int64_t fused_tile = std::min(T, kFusedHeadTile);
  const bool in_one = !z.split() && !z.frozen && u.softcap == 0;
  const int64_t fused = in_one ? z(kHeadLoss, fused_tile, V, D) : 0;
  if (fused > 0) c.forward_workspace = fused_tile * D * z.s + fused;
  if (z.split())
    c.forward_exchanged = 2 * z.gathered(D) + z.query.tensor * T * kNumbersOfARow * int64_t{sizeof(double)};
  c.forward_flops = (z.frozen ? 4 : 6) * T * V * D;  // logits, their input's gradient, the table's
  const int64_t num_tiles = T ? (T + kHeadTile - 1) / kHeadTile : 0;
  c.forward_bytes_moved = num_tiles * V * D * (2 * z.s + (z.frozen ? 0 : 2 * z.g)) + T * D * z.s * 5 +
                          T * V * (4 * z.g + (rounded ? 3 * z.s : 0));
  if (fused > 0)
    c.forward_bytes_moved =
        (T + kFusedHeadTile - 1) / kFusedHeadTile * V * D * (2 * z.s + 2 * z.g) + T * D * z.s * 5 + T * V * z.s * 3;
  c.backward_input_bytes_moved = z.N * D * z.s * 3;
  c.backward_weight_bytes_moved = z.N * D * z.s * 2;
  finish(c, {}, z);
  return c;
}

}  // namespace

AlikeParameters alike_parameters(const Unit& unit, int64_t tensor) {
  AlikeParameters n;
  if (tensor == 1) return n;
  if (const auto* e = std::get_if<EmbedSpec>(&unit.spec))
    n.all += norm_parameters(e->norm) + (e->positions + e->token_types) * e->width;
  if (const auto* h = std::get_if<HeadSpec>(&unit.spec)) n.all += norm_parameters(h->norm);
  if (const AttentionSpec* a = attention_of(unit)) {
    n.all += norm_parameters(a->norm) + norm_parameters(a->join.norm) + (a->out_bias ? a->width : 0);
    if (a->head_norm != HeadNormKind::none) n.all += a->query_norm_width() + a->key_norm_width();
    if (a->kv_heads < tensor) n.keys += 2 * a->head_dim * (a->width + (a->qkv_bias ? 1 : 0));
  }
  const auto* both = std::get_if<ParallelSpec>(&unit.spec);
  if (const MlpSpec* m = mlp_of(unit))
    n.all += (both && both->shared_norm ? 0 : norm_parameters(m->norm)) + norm_parameters(m->join.norm) +
             (m->bias ? m->width : 0);
  return n;
}

int64_t own_table_gradient(const Unit& unit, const CostQuery& q) {
  const auto* head = std::get_if<HeadSpec>(&unit.spec);
  return head && head->tied && !unit.frozen ? parts_of(head->vocab, q.tensor) * head->width : 0;
}

std::string_view name_of(Recompute r) {
  return r == Recompute::full ? "full" : r == Recompute::attention ? "attention" : "none";
}

bool is_recomputed(const Unit& unit, Recompute recompute) {
  const bool attention = attention_of(unit) != nullptr;
  const bool mlp = mlp_of(unit) || std::holds_alternative<MoeSpec>(unit.spec);
  return (attention && recompute != Recompute::none) || (mlp && recompute == Recompute::full);
}

static UnitCost cost_of(const Unit& unit, const CostQuery& q, bool swaps) {
  const int64_t s = size_of(q.dtype), g = q.dtype == DType::f64 ? 8 : 4;
  const Sizes sizes{q.tokens,      split_rows(q), q.attended_pairs,  s, g,
                    unit.adapters, unit.frozen,   unit.stored.coded, q, swaps};
  UnitCost c = std::visit([&](const auto& spec) { return cost(spec, sizes); }, unit.spec);
  if (c.trained == 0) {  // what would be left for the weights' gradients ends with BACKWARD_INPUT
    c.backward_input_workspace += c.left_bytes;
    c.left_bytes = c.backward_weight_workspace = c.backward_weight_bytes_moved = c.backward_weight_exchanged = 0;
  }
  c.parameter_bytes += (c.parameters - unit.stored.elements) * s + unit.stored.bytes;
  if (const MoeSpec* m = moe_of(unit); m && m->choice_bias) c.parameter_bytes += m->experts * g;
  c.gradient_bytes = (c.trained + own_table_gradient(unit, q)) * g;
  return c;
}

UnitCost unit_cost(const Unit& unit, const CostQuery& q) { return cost_of(unit, q, false); }
UnitCost unit_cost_in_context(const Unit& unit, const CostQuery& q) { return cost_of(unit, q, true); }

SwappedBytes swapped_bytes(const Unit& unit, const CostQuery& q) {
  const AttentionSpec* whole = attention_of(unit);
  if (!whole) return {};
  const AttentionSpec u = part_of(*whole, q.tensor);
  const int64_t in = q.tokens * u.qkv_rows() * size_of(q.dtype),
                back = q.tokens * u.heads * u.head_dim * size_of(q.dtype);
  const int64_t again = u.head_norm == HeadNormKind::none ? 0 : in;  // kept before the norms, not after the swap
  return {in + back, in + back + again, unit_cost(unit, q).trained > 0 ? back : 0};
}

int64_t expert_rows(const MoeSpec& u, const CostQuery& q) {
  const int64_t tokens = q.expert_tensor > 1 ? q.tokens : split_rows(q);
  if (q.expert == 1) return tokens * u.top_k;
  return static_cast<int64_t>(std::ceil(q.capacity_factor * static_cast<double>(tokens * u.top_k)));
}

}  // namespace tern
