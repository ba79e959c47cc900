// Latent attention: queries (where they have a rank), keys and values pass through narrow rows. What attention itself
// sees is made here: rows of H query heads, H key heads and H value heads of d = rotary + plain elements each, the
// turned part first; value heads shorter than d are padded with zeros, which add nothing. Source: DeepSeek-V2,
// arXiv:2405.04434, §2.1 (number recalled); names and order of rows as in transformers.

#include <type_traits>

#include "base/wide_type.h"
#include "kernels/cpu/heads.h"
#include "kernels/ref/heads_ref.h"
#include "model/linear.h"
#include "model/ops.h"
#include "model/tensor_ranks.h"
#include "model/unit_impl.h"

namespace tern {

namespace {

int64_t row_width(const Tensor& t) { return t.rows() ? t.count() / t.rows() : 0; }

// Pieces of every row of a tensor: the first at column `at`, the next `step` columns on (0: the same piece again).
struct Columns {
  const Tensor& rows;
  int64_t at, step = 0;
  HeadPieces pieces() const { return {row_width(rows), at, step}; }
};

void copy_pieces(const Columns& from, const Columns& to, int64_t heads, int64_t width) {
  const HeadShape s{from.rows.rows(), heads, width};
  ops::by_dtype(from.rows.dtype(), [&]<class T>() {
    if constexpr (std::is_same_v<T, double>)
      copy_heads_ref(s, from.rows.span<T>(), from.pieces(), to.rows.span<T>(), to.pieces());
    else
      copy_heads<T>(s, from.rows.span<T>(), from.pieces(), to.rows.span<T>(), to.pieces());
  });
}
void copy_columns(const Columns& from, const Columns& to, int64_t width) { copy_pieces(from, to, 1, width); }

void zero_pieces(const Columns& to, int64_t heads, int64_t width) {
  const HeadShape s{to.rows.rows(), heads, width};
  ops::by_dtype(to.rows.dtype(), [&]<class T>() {
    if constexpr (std::is_same_v<T, double>)
      zero_heads_ref(s, to.rows.span<T>(), to.pieces());
    else
      zero_heads<T>(s, to.rows.span<T>(), to.pieces());
  });
}

// to = Σ over heads of from's pieces.
void sum_pieces(const Columns& from, const Columns& to, int64_t heads, int64_t width) {
  const HeadShape s{from.rows.rows(), heads, width};
  ops::by_dtype(from.rows.dtype(), [&]<class T>() {
    if constexpr (std::is_same_v<T, double>)
      sum_heads_ref(s, from.rows.span<T>(), from.pieces(), to.rows.span<T>(), to.pieces());
    else
      sum_heads<T>(s, from.rows.span<T>(), from.pieces(), to.rows.span<T>(), to.pieces());
  });
}

// Where things stand in a row of qkv.
struct Places {
  int64_t heads, d, keys, values, plain, rotary, value;
  explicit Places(const AttentionSpec& u)
      : heads(u.heads),
        d(u.head_dim),
        keys(u.heads * u.head_dim),
        values(2 * u.heads * u.head_dim),
        plain(u.latent.plain),
        rotary(u.latent.rotary),
        value(u.latent.value) {}
  int64_t up() const { return plain + value; }  // a head's rows of kv_up: plain keys, values
};

Tensor scratch_rows(const Tensor& like, int64_t width, const Compute& c) {
  return c.arena.allocate(like.dtype(), {like.rows(), width}, MemoryClass::workspace);
}

// The normed narrow rows of keys and values; rstd kept where there is room for it.
Tensor normed_kv(const LatentSpec& l, const LatentWeights& w, const Tensor& kv_TR, const Tensor& rstd,
                 const Compute& c) {
  const Tensor normed = scratch_rows(kv_TR, l.kv_rank, c);
  copy_columns({kv_TR, 0}, {normed, 0}, l.kv_rank);
  ops::norm(l.norm(l.kv_rank), w.kv_norm, normed, normed, {}, rstd);
  return normed;
}
Tensor normed_query(const LatentSpec& l, const LatentWeights& w, const Tensor& query_TR, const Tensor& rstd,
                    const Compute& c) {
  const Tensor normed = scratch_rows(query_TR, l.query_rank, c);
  ops::norm(l.norm(l.query_rank), w.query_norm, query_TR, normed, {}, rstd);
  return normed;
}

Tensor dquery_of(const Places& p, const Tensor& dqkv, const Compute& c) {
  const Tensor dq = scratch_rows(dqkv, p.heads * p.d, c);
  copy_columns({dqkv, 0}, {dq, 0}, p.heads * p.d);
  return dq;
}
Tensor dup_of(const Places& p, const Tensor& dqkv, const Compute& c) {
  const Tensor dup = scratch_rows(dqkv, p.heads * p.up(), c);
  copy_pieces({dqkv, p.keys + p.rotary, p.d}, {dup, 0, p.up()}, p.heads, p.plain);
  copy_pieces({dqkv, p.values, p.d}, {dup, p.plain, p.up()}, p.heads, p.value);
  return dup;
}

}  // namespace

// c = (c_kv, k_r) = kv_down(n),  (k_h, v_h) = kv_up(norm(c_kv)),  q = query_up(norm(query_down(n))) or query_up(n);
// a key head is (k_r, k_h), a query head has its turned part first too.
void latent_forward(const AttentionSpec& u, const LatentWeights& w, Tensor normed, const Tensor& qkv,
                    LatentSaved* saved, const Compute& c) {
  const LatentSpec& l = u.latent;
  const Places p(u);
  const int64_t T = qkv.rows();
  const DType dtype = qkv.dtype();
  LatentSaved own;
  LatentSaved& s = saved ? *saved : own;
  const auto place_query = [&](const Tensor& q) { copy_columns({q, 0}, {qkv, 0}, p.heads * p.d); };
  if (!saved) s.kv_TR = c.arena.allocate(dtype, {T, w.kv_down.out}, MemoryClass::workspace);
  linear_forward(w.kv_down, normed, s.kv_TR, c);
  if (l.query_rank > 0) {
    if (!saved) s.query_TR = c.arena.allocate(dtype, {T, l.query_rank}, MemoryClass::workspace);
    linear_forward(w.query_down, normed, s.query_TR, c);
  } else {
    const Tensor q = scratch_rows(qkv, p.heads * p.d, c);
    linear_forward(w.query_up, normed, q, c);
    place_query(q);
  }
  normed = {};
  if (l.query_rank > 0) {
    const Tensor narrow = normed_query(l, w, s.query_TR, s.query_rstd, c), q = scratch_rows(qkv, p.heads * p.d, c);
    linear_forward(w.query_up, narrow, q, c);
    place_query(q);
  }
  const Tensor narrow = normed_kv(l, w, s.kv_TR, s.kv_rstd, c), up = scratch_rows(qkv, p.heads * p.up(), c);
  linear_forward(w.kv_up, narrow, up, c);
  copy_pieces({s.kv_TR, l.kv_rank}, {qkv, p.keys, p.d}, p.heads, p.rotary);
  copy_pieces({up, 0, p.up()}, {qkv, p.keys + p.rotary, p.d}, p.heads, p.plain);
  copy_pieces({up, p.plain, p.up()}, {qkv, p.values, p.d}, p.heads, p.value);
  zero_pieces({qkv, p.values + p.value, p.d}, p.heads, p.d - p.value);
}

LatentSaved allocate_latent(const AttentionSpec& u, int64_t rows, DType dtype, const Compute& c) {
  const LatentSpec& l = u.latent;
  const auto kept = [&](DType type, Shape shape) { return c.arena.allocate(type, shape, MemoryClass::activations); };
  LatentSaved s;
  s.kv_TR = kept(dtype, {rows, l.kv_rank + l.rotary});
  s.kv_rstd = kept(wide_type(dtype), {rows});
  if (l.query_rank == 0) return s;
  s.query_TR = kept(dtype, {rows, l.query_rank});
  s.query_rstd = kept(wide_type(dtype), {rows});
  return s;
}

// The norms' weights get their gradients before the norms' own backward overwrites what they need.
void allocate_latent_gradients(const AttentionSpec& u, LatentSaved& s, MemoryClass left, const Compute& c) {
  const LatentSpec& l = u.latent;
  const DType dtype = s.kv_TR.dtype(), sums = wide_type(dtype);
  s.dkv_TR = c.arena.allocate(dtype, s.kv_TR.shape(), left);
  s.dkv_norm = c.arena.zeros(sums, {l.kv_rank}, left);
  if (l.query_rank == 0) return;
  s.dquery_TR = c.arena.allocate(dtype, s.query_TR.shape(), left);
  s.dquery_norm = c.arena.zeros(sums, {l.query_rank}, left);
}

// dc_kv = norm'(dup·W_kv_up),  dk_r = Σ_h of the key heads' turned parts,  dn = dc·W_kv_down + the queries' part
void latent_backward(const AttentionSpec& u, const LatentWeights& w, const Tensor& dqkv, LatentSaved& s,
                     const Tensor& dn, const Compute& c) {
  const LatentSpec& l = u.latent;
  const Places p(u);
  {
    const Tensor dnarrow = scratch_rows(dqkv, l.kv_rank, c);
    linear_backward_input(w.kv_up, dup_of(p, dqkv, c), dnarrow, c);
    const Tensor narrow = scratch_rows(dqkv, l.kv_rank, c);
    copy_columns({s.kv_TR, 0}, {narrow, 0}, l.kv_rank);
    const NormSpec norm = l.norm(l.kv_rank);
    ops::norm_backward_weight(norm, dnarrow, narrow, {}, s.kv_rstd, {s.dkv_norm, {}});
    ops::norm_backward_input(norm, w.kv_norm, dnarrow, narrow, {}, s.kv_rstd, dnarrow);
    copy_columns({dnarrow, 0}, {s.dkv_TR, 0}, l.kv_rank);
  }
  sum_pieces({dqkv, p.keys, p.d}, {s.dkv_TR, l.kv_rank}, p.heads, p.rotary);
  if (l.query_rank > 0) {
    linear_backward_input(w.query_up, dquery_of(p, dqkv, c), s.dquery_TR, c);
    const NormSpec norm = l.norm(l.query_rank);
    ops::norm_backward_weight(norm, s.dquery_TR, s.query_TR, {}, s.query_rstd, {s.dquery_norm, {}});
    ops::norm_backward_input(norm, w.query_norm, s.dquery_TR, s.query_TR, {}, s.query_rstd, s.dquery_TR);
    linear_backward_input(w.query_down, s.dquery_TR, dn, c);
  } else {
    linear_backward_input(w.query_up, dquery_of(p, dqkv, c), dn, c);
  }
  const Tensor other = scratch_rows(dqkv, row_width(dn), c);
  linear_backward_input(w.kv_down, s.dkv_TR, other, c);
  ops::add(other, dn);
}

// Of the narrow rows; then of what reads n.
void latent_weight(const AttentionSpec& u, const LatentWeights& w, const Tensor& dqkv, const LatentSaved& s,
                   const NormWeights& norm, const Tensor& x, LatentWeights& g, const Compute& c) {
  const LatentSpec& l = u.latent;
  const Places p(u);
  linear_backward_weight(w.kv_up, dup_of(p, dqkv, c), normed_kv(l, w, s.kv_TR, {}, c), g.kv_up, c);
  ops::add_gradient(s.dkv_norm, g.kv_norm.weight);
  if (l.query_rank > 0) {
    linear_backward_weight(w.query_up, dquery_of(p, dqkv, c), normed_query(l, w, s.query_TR, {}, c), g.query_up, c);
    ops::add_gradient(s.dquery_norm, g.query_norm.weight);
  }
  const Tensor normed = normed_rows(u.norm, norm, x, {}, {}, c);
  linear_backward_weight(w.kv_down, s.dkv_TR, normed, g.kv_down, c);
  if (l.query_rank > 0)
    linear_backward_weight(w.query_down, s.dquery_TR, normed, g.query_down, c);
  else
    linear_backward_weight(w.query_up, dquery_of(p, dqkv, c), normed, g.query_up, c);
}

// The value parts of the context's heads, one beside the other: what the output's matrix reads. The context itself
// where heads have no other parts.
Tensor latent_values(const AttentionSpec& u, const Tensor& context, const Compute& c) {
  if (u.value_rows() == u.heads * u.head_dim) return context;
  const Tensor values = scratch_rows(context, u.value_rows(), c);
  copy_pieces({context, 0, u.head_dim}, {values, 0, u.latent.value}, u.heads, u.latent.value);
  return values;
}

// dcontext from the gradient of its value parts.
Tensor latent_dcontext(const AttentionSpec& u, const Linear& out, const Tensor& df, const Tensor& dcontext,
                       const Compute& c) {
  if (u.value_rows() == u.heads * u.head_dim) return gathered_backward_input(out, df, dcontext, c);
  const Tensor dvalues = scratch_rows(dcontext, u.value_rows(), c);
  Tensor all_df = gathered_backward_input(out, df, dvalues, c);
  copy_pieces({dvalues, 0, u.latent.value}, {dcontext, 0, u.head_dim}, u.heads, u.latent.value);
  zero_pieces({dcontext, u.latent.value, u.head_dim}, u.heads, u.head_dim - u.latent.value);
  return all_df;
}

}  // namespace tern
