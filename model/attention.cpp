#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "kernels/cpu/attention.h"
#include "kernels/cpu/tile_attention.h"
#include "kernels/ref/attention_ref.h"
#include "model/linear.h"
#include "model/ops.h"
#include "model/unit_impl.h"

namespace tern {

namespace {

// A row of qkv holds H query heads, K key heads, K value heads of d elements each.
AttentionShape kernel_shape(const AttentionSpec& u, int64_t kv_stride) {
  return {.heads = u.heads,
          .kv_heads = u.kv_heads,
          .head_dim = u.head_dim,
          .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(u.head_dim))),
          .window = u.window,
          .q_stride = u.qkv_rows(),
          .kv_stride = kv_stride,
          .out_stride = u.heads * u.head_dim};
}
int64_t key_offset(const AttentionSpec& u) { return u.heads * u.head_dim; }
int64_t value_offset(const AttentionSpec& u) { return (u.heads + u.kv_heads) * u.head_dim; }

void turn(const AttentionSpec& u, const RopeSpec& spec, const Rows& rows, bool inverse, const Tensor& qkv) {
  if (spec.kind == RopeKind::none) return;
  TERN_CHECK(rows.rope, "attention: {} rotary positions without a table", rows.positions.size());
  for (const int32_t p : rows.positions)
    TERN_CHECK(0 <= p && p < rows.rope->num_positions, "attention: position {} outside a table of {}", p,
               rows.rope->num_positions);
  ops::rope(spec, *rows.rope, rows.positions, u.heads + u.kv_heads, u.head_dim, inverse, qkv);
}

template <class T>
void run_attention(const AttentionShape& shape, std::span<const AttentionSequence<T>> sequences, const T* q, T* out,
                   const Tensor& lse) {
  if constexpr (std::is_same_v<T, double>)
    attention_forward_ref(shape, sequences, q, out, ops::span_or_none<double>(lse));
  else
    attention_forward<T>(shape, sequences, q, out, ops::span_or_none<float>(lse));
}

// Training in bf16 with the fast multiplier has its own attention where the processor has tiles.
bool on_tiles(DType dtype, const Compute& c) {
  return dtype == DType::bf16 && c.multiply == Multiply::fast && has_tile_attention();
}

// Every sequence attends to its own rows.
template <class T>
void attend_rows(const AttentionSpec& u, const Rows& rows, const Tensor& qkv, const Tensor& context, const Tensor& lse,
                 const Compute& c) {
  if constexpr (std::is_same_v<T, bf16>)
    if (on_tiles(qkv.dtype(), c)) {
      const bf16* at = qkv.span<bf16>().data();
      return tile_attention_forward(kernel_shape(u, u.qkv_rows()), rows.starts, at, at + key_offset(u),
                                    at + value_offset(u), context.span<bf16>().data(), ops::span_or_none<float>(lse));
    }
  const size_t num = rows.starts.size() - 1;
  const T* q = qkv.span<T>().data();
  std::vector<const T*> keys(num), values(num);
  std::vector<AttentionSequence<T>> sequences(num);
  for (size_t i = 0; i < num; ++i) {
    const int64_t begin = rows.starts[i], count = rows.starts[i + 1] - begin;
    keys[i] = q + begin * u.qkv_rows() + key_offset(u);
    values[i] = q + begin * u.qkv_rows() + value_offset(u);
    sequences[i] = {begin, count, count, &keys[i], &values[i], std::max<int64_t>(count, 1)};
  }
  run_attention<T>(kernel_shape(u, u.qkv_rows()), sequences, q, context.span<T>().data(), lse);
}

// The new keys and values go to their pages, then every sequence attends to all of its pages.
template <class T>
void attend_cache(const AttentionSpec& u, const Rows& rows, const Tensor& qkv, KvView& kv, int layer,
                  const Tensor& context) {
  const size_t num = rows.starts.size() - 1;
  const int64_t row = u.kv_heads * u.head_dim, C = u.qkv_rows(), page_tokens = kv.page_tokens;
  TERN_CHECK(page_tokens > 0 && kv.past.size() == num && kv.pages.size() == num,
             "KvView: {} sequences, {} pasts, {} page lists", num, kv.past.size(), kv.pages.size());
  const Tensor &keys = kv.keys.at(layer), &values = kv.values.at(layer);
  T* const k_store = keys.span<T>().data();
  T* const v_store = values.span<T>().data();
  const T* q = qkv.span<T>().data();

  std::vector<std::vector<const T*>> key_pages(num), value_pages(num);
  std::vector<AttentionSequence<T>> sequences(num);
  for (size_t i = 0; i < num; ++i) {
    const int64_t begin = rows.starts[i], count = rows.starts[i + 1] - begin, past = kv.past[i], total = past + count;
    const std::vector<int32_t>& pages = kv.pages[i];
    const auto needed = static_cast<size_t>((total + page_tokens - 1) / page_tokens);
    TERN_CHECK(pages.size() >= needed, "KvView: sequence {} has {} pages for {} tokens", i, pages.size(), total);
    for (size_t p = 0; p < needed; ++p) {
      TERN_CHECK(0 <= pages[p] && pages[p] < keys.rows(), "KvView: page {} of {}", pages[p], keys.rows());
      key_pages[i].push_back(k_store + pages[p] * page_tokens * row);
      value_pages[i].push_back(v_store + pages[p] * page_tokens * row);
    }
    for (int64_t t = 0; t < count; ++t) {
      const int64_t at =
          (pages[static_cast<size_t>((past + t) / page_tokens)] * page_tokens + (past + t) % page_tokens) * row;
      const T* from = q + (begin + t) * C;
      std::memcpy(k_store + at, from + key_offset(u), static_cast<size_t>(row) * sizeof(T));
      std::memcpy(v_store + at, from + value_offset(u), static_cast<size_t>(row) * sizeof(T));
    }
    sequences[i] = {begin, count, total, key_pages[i].data(), value_pages[i].data(), page_tokens};
  }
  run_attention<T>(kernel_shape(u, row), sequences, q, context.span<T>().data(), {});
}

}  // namespace

// n = norm(x),  (q, k, v) = qkv(n),  q and k turned by their positions,
// o_h = Σ_j softmax_j(q_h·k_j/√d) v_j over the keys seen,  y = x + out(o)
Tensor attention_unit_forward(const AttentionSpec& u, const RopeSpec& rope, const AttentionWeights& w, const Rows& rows,
                              const Tensor& x, AttentionSaved* saved, KvView* kv, int layer, const Compute& c) {
  TERN_CHECK(!saved || !kv, "attention: training goes over plain rows, not over a KV cache");
  const int64_t T = x.rows(), E = u.heads * u.head_dim;
  const DType dtype = x.dtype();
  const MemoryClass kept = saved ? MemoryClass::activations : MemoryClass::workspace;
  const Tensor y = c.arena.allocate(dtype, x.shape(), MemoryClass::activations);
  NormStatistics stats;
  Tensor lse, context;
  if (saved) {
    stats = allocate_statistics(u.norm, T, dtype, c);
    lse = c.arena.allocate(ops::sum_dtype(dtype), {T, u.heads}, kept);
    context = c.arena.allocate(dtype, {T, E}, kept);
  }
  Tensor qkv = c.arena.allocate(dtype, {T, u.qkv_rows()}, kept);
  {
    const Tensor normed = c.arena.allocate(dtype, x.shape(), MemoryClass::workspace);
    ops::norm(u.norm, w.norm, x, normed, stats.mean_T, stats.rstd_T);
    linear_forward(w.qkv, normed, qkv, c);
  }
  turn(u, rope, rows, false, qkv);
  if (!saved) context = c.arena.allocate(dtype, {T, E}, kept);
  ops::by_dtype(dtype, [&]<class N>() {
    if (kv) return attend_cache<N>(u, rows, qkv, *kv, layer, context);
    attend_rows<N>(u, rows, qkv, context, lse, c);
  });
  if (saved)
    *saved = {.x_TD = x,
              .mean_T = stats.mean_T,
              .rstd_T = stats.rstd_T,
              .qkv_TC = qkv,
              .context_TE = context,
              .lse_TH = lse,
              .dqkv_TC = {},
              .dnormed_TD = {}};
  qkv = {};
  linear_forward(w.out, context, y, c);
  ops::add(x, y);
  return y;
}

// do = dy·W_out,  (dq, dk, dv) by attention_backward (kernels/cpu/attention.h), dq and dk turned back,
// dn = dqkv·W_qkv,  dx = dy + norm'(dn)
Tensor attention_unit_backward_input(const AttentionSpec& u, const RopeSpec& rope, const AttentionWeights& w,
                                     const Rows& rows, const Tensor& dy, AttentionSaved& saved, const Compute& c) {
  const DType dtype = dy.dtype();
  const Tensor dx = c.arena.allocate(dtype, dy.shape(), MemoryClass::activations);
  saved.dqkv_TC = c.arena.allocate(dtype, saved.qkv_TC.shape(), MemoryClass::activations);
  saved.dnormed_TD = c.arena.allocate(dtype, dy.shape(), MemoryClass::activations);
  {
    const Tensor dcontext = c.arena.allocate(dtype, saved.context_TE.shape(), MemoryClass::workspace);
    linear_backward_input(w.out, dy, dcontext, c);
    ops::by_dtype(dtype, [&]<class T>() {
      const AttentionShape shape = kernel_shape(u, u.qkv_rows());
      const T* q = saved.qkv_TC.span<T>().data();
      T* dq = saved.dqkv_TC.span<T>().data();
      const T *out = saved.context_TE.span<T>().data(), *dout = dcontext.span<T>().data();
      const int64_t k = key_offset(u), v = value_offset(u);
      if constexpr (std::is_same_v<T, bf16>)
        if (on_tiles(dtype, c))
          return tile_attention_backward(shape, rows.starts, q, q + k, q + v, out, dout, saved.lse_TH.span<float>(), dq,
                                         dq + k, dq + v);
      if constexpr (std::is_same_v<T, double>)
        attention_backward_ref(shape, rows.starts, q, q + k, q + v, out, dout, saved.lse_TH.span<double>(), dq, dq + k,
                               dq + v);
      else
        attention_backward<T>(shape, rows.starts, q, q + k, q + v, out, dout, saved.lse_TH.span<float>(), dq, dq + k,
                              dq + v);
    });
  }
  turn(u, rope, rows, true, saved.dqkv_TC);
  linear_backward_input(w.qkv, saved.dqkv_TC, saved.dnormed_TD, c);
  ops::norm_backward_input(u.norm, w.norm, saved.dnormed_TD, saved.x_TD, saved.mean_T, saved.rstd_T, dx);
  ops::add(dy, dx);
  return dx;
}

// dW_out += dyᵀ·o,  dW_qkv += dqkvᵀ·n, biases their rows' sums; n is made again, with the bits of the forward
void attention_unit_backward_weight(const AttentionSpec& u, const AttentionWeights& w, const Tensor& dy,
                                    const AttentionSaved& saved, AttentionWeights& g, const Compute& c) {
  linear_backward_weight(dy, saved.context_TE, g.out, c);
  const Tensor normed = c.arena.allocate(dy.dtype(), dy.shape(), MemoryClass::workspace);
  ops::norm(u.norm, w.norm, saved.x_TD, normed, {}, {});
  linear_backward_weight(saved.dqkv_TC, normed, g.qkv, c);
  ops::norm_backward_weight(u.norm, saved.dnormed_TD, saved.x_TD, saved.mean_T, saved.rstd_T, g.norm);
}

}  // namespace tern
