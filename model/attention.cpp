#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "base/wide_type.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/hadamard.h"
#include "kernels/cpu/kv_rows.h"
#include "kernels/cpu/tile_attention.h"
#include "kernels/ref/attention_ref.h"
#include "model/context_ranks.h"
#include "model/linear.h"
#include "model/ops.h"
#include "model/ring_attention.h"
#include "model/sinks.h"
#include "model/tensor_ranks.h"
#include "model/unit_impl.h"

namespace tern {

namespace {

// Slopes of a bias by distance: powers of 2^(-8/n) for n heads, n a power of two; else those of the next smaller
// power, then every second one of the next larger. Source: Press et al. 2022, arXiv:2108.12409, and its authors' code
// for other numbers (recalled).
std::vector<float> slopes_of(const AttentionSpec& u) {
  std::vector<float> slopes;
  if (u.alibi == AlibiKind::none) return slopes;
  int64_t power = 1;
  while (2 * power <= u.heads) power *= 2;
  const auto add = [&](int64_t n, int64_t i) {
    const auto slope = static_cast<float>(std::exp2(-8.0 * static_cast<double>(i) / static_cast<double>(n)));
    slopes.push_back(u.alibi == AlibiKind::bf16 ? to_float(to_bf16(slope)) : slope);
  };
  for (int64_t i = 1; i <= power; ++i) add(power, i);
  for (int64_t i = 1; static_cast<int64_t>(slopes.size()) < u.heads; i += 2) add(2 * power, i);
  return slopes;
}

// Of the heads that this rank computes: a head's slope follows from its place among all.
std::vector<float> own_slopes(const AttentionSpec& u, const Compute& c) {
  std::vector<float> slopes = slopes_of(u);
  if (!swaps_heads(c) || slopes.empty()) return slopes;
  const int64_t each = heads_of_context(u, c).heads;
  const auto first = slopes.begin() + each * c.context->comm.rank();
  return {first, first + each};
}

// A row of qkv holds H query heads, K key heads, K value heads of d elements each.
AttentionShape kernel_shape(const AttentionSpec& u, int64_t kv_stride, const std::vector<float>& slopes) {
  const double root = 1.0 / std::sqrt(static_cast<double>(u.head_dim));
  return {.heads = u.heads,
          .kv_heads = u.kv_heads,
          .head_dim = u.head_dim,
          .scale = static_cast<float>(u.scale != 0 ? u.scale : root),
          .window = u.window,
          .q_stride = u.qkv_rows(),
          .kv_stride = kv_stride,
          .out_stride = u.heads * u.head_dim,
          .causal = u.causal,
          .softcap = static_cast<float>(u.softcap),
          .slopes = slopes.empty() ? nullptr : slopes.data(),
          .slopes_in_bf16 = u.alibi == AlibiKind::bf16,
          .slope_factor = u.alibi == AlibiKind::bf16 ? static_cast<float>(root) : 1.0f};
}
bool in_ring(const Compute& c) { return c.context && c.context->ring; }
// From one key to the next of a block that goes round a ring: a row has its keys and values.
int64_t ring_stride(const AttentionSpec& u) { return 2 * u.kv_heads * u.head_dim; }
int64_t key_offset(const AttentionSpec& u) { return u.heads * u.head_dim; }
int64_t value_offset(const AttentionSpec& u) { return (u.heads + u.kv_heads) * u.head_dim; }
std::array<int64_t, 3> qkv_sections(const AttentionSpec& u) {
  return {u.heads * u.head_dim, u.kv_heads * u.head_dim, u.kv_heads * u.head_dim};
}

void turn(const AttentionSpec& u, const ModelSpec& spec, const Rows& rows, bool inverse, const Tensor& qkv) {
  if (u.rope == RopeUse::none || !spec.turns()) return;
  TERN_CHECK(rows.rope, "attention: {} rotary positions without a table", rows.positions.size());
  const bool local = u.rope == RopeUse::local;
  TERN_CHECK(!local || rows.rope->local.size() == 1, "attention: no table of the windowed layers' positions");
  const RopeTable& table = local ? rows.rope->local.front() : *rows.rope;
  for (const int32_t p : rows.positions)
    TERN_CHECK(0 <= p && p < table.num_positions, "attention: position {} outside a table of {}", p,
               table.num_positions);
  ops::rope(local ? spec.local_rope : spec.rope, table, rows.positions, u.heads + u.kv_heads, u.head_dim, inverse, qkv);
}

// Queries and keys as attention takes them: normed where the spec norms them, then turned. With statistics to keep, qkv
// stays as it is and a copy is prepared.
Tensor prepared(const AttentionSpec& u, const ModelSpec& spec, const AttentionWeights& w, const Rows& rows,
                const Tensor& qkv, const Tensor& query_rstd, const Tensor& key_rstd, bool keep, const Compute& c) {
  Tensor to = qkv;
  if (u.head_norm != HeadNormKind::none) {
    if (keep) ops::copy(qkv, to = c.arena.allocate(qkv.dtype(), qkv.shape(), MemoryClass::workspace));
    ops::head_norm(u.head_norm_like, w.query_norm, qkv, 0, u.query_norms(), to, query_rstd);
    ops::head_norm(u.head_norm_like, w.key_norm, qkv, key_offset(u), u.key_norms(), to, key_rstd);
  }
  turn(u, spec, rows, false, to);
  return to;
}

template <class T>
void run_attention(const AttentionShape& shape, std::span<const AttentionSequence<T>> sequences, const T* q, T* out,
                   const Tensor& lse) {
  if constexpr (std::is_same_v<T, double>)
    attention_forward_ref(shape, sequences, q, out, ops::span_or_none<double>(lse));
  else
    attention_forward<T>(shape, sequences, q, out, ops::span_or_none<float>(lse));
}

// Training in bf16 with the fast multiplier has its own attention on `amx_bf16` and `avx512_bf16`, for plain scores.
bool on_tiles(const AttentionSpec& u, DType dtype, Multiply multiply) {
  return dtype == DType::bf16 && multiply == Multiply::fast && u.causal && u.softcap == 0 &&
         u.alibi == AlibiKind::none && has_tile_attention();
}

// A sequence that follows another one sees both ones' rows: each row of q, k and v is a page.
template <class T>
void follow(const AttentionSpec& u, const Rows& rows, size_t i, const T* qkv, std::vector<int32_t>& pages,
            AttentionSequence<T>& s) {
  TERN_CHECK(u.causal, "attention: a sequence follows another one, and every row sees all");
  const auto of = static_cast<size_t>(rows.follows[i]);
  for (const size_t sequence : {of, i})
    for (int64_t row = rows.starts[sequence]; row < rows.starts[sequence + 1]; ++row)
      pages.push_back(static_cast<int32_t>(row));
  s.num_keys = std::ssize(pages);
  s.keys = qkv + key_offset(u), s.values = qkv + value_offset(u);
  s.pages = pages.data();
  s.layout = {.page_tokens = 1, .page_stride = u.qkv_rows(), .key_stride = 0, .head_stride = u.head_dim};
}

// Every sequence attends to its own rows, of a context group all ranks' rows: with the heads of this one, or in a ring.
template <class T>
void attend_rows(const AttentionSpec& whole, const Rows& rows, const Tensor& qkv, const Tensor& context,
                 const Tensor& lse, const Compute& c) {
  const AttentionSpec u = heads_of_context(whole, c);
  const std::vector<float> slopes = own_slopes(whole, c);
  TERN_CHECK(rows.follows.empty() || (c.multiply == Multiply::exact && !in_ring(c)),
             "attention: sequences follow others in a pass that is not exact, or in a ring");
  if (in_ring(c)) return ring_forward(kernel_shape(u, ring_stride(u), slopes), rows, qkv, context, lse, c);
  const AttentionShape shape = kernel_shape(u, u.qkv_rows(), slopes);
  if constexpr (std::is_same_v<T, bf16>)
    if (on_tiles(u, qkv.dtype(), c.multiply)) {
      const bf16* at = qkv.span<bf16>().data();
      return tile_attention_forward(shape, rows.starts, at, at + key_offset(u), at + value_offset(u),
                                    context.span<bf16>().data(), ops::span_or_none<float>(lse));
    }
  const size_t num = rows.starts.size() - 1;
  const T* q = qkv.span<T>().data();
  std::vector<AttentionSequence<T>> sequences(num);
  std::vector<std::vector<int32_t>> pages(rows.follows.size());
  for (size_t i = 0; i < num; ++i) {
    const int64_t begin = rows.starts[i], count = rows.starts[i + 1] - begin;
    const T* row = q + begin * u.qkv_rows();
    sequences[i] = {begin, count, count, row + key_offset(u), row + value_offset(u)};
    if (rows_before(rows, i) > 0) follow(u, rows, i, q, pages[i], sequences[i]);
  }
  run_attention<T>(shape, sequences, q, context.span<T>().data(), lse);
}

// Keys or values of one layer's pages, and how they are kept.
struct KvStore {
  KvType type;
  PageLayout layout;  // in bytes
  uint8_t *keys, *values;
};
KvStore kv_store(const AttentionSpec& u, const KvView& kv, int layer) {
  const Tensor &keys = kv.keys[static_cast<size_t>(layer)], &values = kv.values[static_cast<size_t>(layer)];
  const KvType type = keys.dtype() == DType::u8 ? kv.code : kv_type_of(keys.dtype());
  const int64_t row = kv_row_bytes(type, u.head_dim), head = kv.page_tokens * row;  // rows of a head lie together
  const Shape needed{keys.rows(), u.kv_heads, kv.page_tokens, is_coded(type) ? row : u.head_dim};
  TERN_CHECK(keys.shape() == needed && values.shape() == needed && values.dtype() == keys.dtype(),
             "KvView: layer {} is {} in {}, its attention needs {}", layer, to_string(keys.shape()), name_of(type),
             to_string(needed));
  return {type,
          {kv.page_tokens, u.kv_heads * head, row, head},
          static_cast<uint8_t*>(keys.data()),
          static_cast<uint8_t*>(values.data())};
}

// The new keys and values of a sequence go to their pages.
template <class T>
void store_rows(const AttentionSpec& u, const KvStore& to, const int32_t* pages, int64_t past, int64_t count,
                const T* rows) {
  const PageLayout& in = to.layout;
  for (int64_t t = 0; t < count; ++t) {
    const T* from = rows + t * u.qkv_rows();
    const int64_t page = pages[(past + t) / in.page_tokens], slot = (past + t) % in.page_tokens;
    for (int64_t h = 0; h < u.kv_heads; ++h) {
      const int64_t at = page * in.page_stride + h * in.head_stride + slot * in.key_stride;
      write_kv_row(to.type, from + key_offset(u) + h * u.head_dim, u.head_dim, to.keys + at);
      write_kv_row(to.type, from + value_offset(u) + h * u.head_dim, u.head_dim, to.values + at);
    }
  }
}

// A sequence's keys in the cache: as numbers of T where they are kept so, else as bytes to be decoded.
template <class T>
void point_at_cache(const KvStore& store, AttentionSequence<T>& s) {
  s.layout = store.layout;
  if (store.type != kv_type_of(DTypeOf<T>::value)) {
    s.kept = {store.type, store.keys, store.values};
    return;
  }
  constexpr int64_t kSize = sizeof(T);
  s.layout.page_stride /= kSize, s.layout.key_stride /= kSize, s.layout.head_stride /= kSize;
  s.keys = reinterpret_cast<const T*>(store.keys), s.values = reinterpret_cast<const T*>(store.values);
}

// Keys and values as a cache keeps them, in their own place.
void round_rows(const AttentionSpec& u, KvType type, const Tensor& qkv) {
  std::vector<uint8_t> kept(static_cast<size_t>(kv_row_bytes(type, u.head_dim)));
  ops::by_dtype(qkv.dtype(), [&]<class T>() {
    T* row = qkv.span<T>().data() + key_offset(u);
    for (int64_t t = 0; t < qkv.rows(); ++t, row += u.qkv_rows())
      for (int64_t h = 0; h < 2 * u.kv_heads; ++h) {
        write_kv_row(type, row + h * u.head_dim, u.head_dim, kept.data());
        read_kv_row(type, kept.data(), u.head_dim, row + h * u.head_dim);
      }
  });
}

// Whether the cache keeps rows in 4 bits: queries, keys and values are then turned first, and what attention gives back.
bool keeps_turned(const Rows& rows, const KvView* kv, int layer) {
  if (!kv) return rows.kv == KvType::q4;
  const auto at = static_cast<size_t>(layer);
  return kv->code == KvType::q4 && at < kv->keys.size() && kv->keys[at].dtype() == DType::u8;
}
void turn_heads(const Tensor& x, int64_t heads, int64_t head_dim, bool inverse) {
  ops::by_dtype(x.dtype(), [&]<class T>() {
    hadamard_turn(x.span<T>().data(), x.rows(), heads * head_dim, heads, head_dim, inverse);
  });
}

// The new keys and values go to their pages, then every sequence attends to all of its pages.
template <class T>
void attend_cache(const AttentionSpec& u, const Rows& rows, const Tensor& qkv, const KvView& kv, int layer,
                  const Tensor& context, const Tensor& lse) {
  const size_t num = rows.starts.size() - 1, at = static_cast<size_t>(layer);
  TERN_CHECK(kv.page_tokens > 0 && kv.past.size() == num && kv.begins.size() == num + 1 &&
                 kv.begins.back() == static_cast<int64_t>(kv.pages.size()) && at < kv.keys.size(),
             "KvView: {} sequences, {} pasts, {} page lists, {} layers", num, kv.past.size(), kv.begins.size(),
             kv.keys.size());
  const KvStore store = kv_store(u, kv, layer);
  const T* q = qkv.span<T>().data();
  std::vector<AttentionSequence<T>> sequences(num);
  for (size_t i = 0; i < num; ++i) {
    const int64_t begin = rows.starts[i], count = rows.starts[i + 1] - begin, past = kv.past[i], total = past + count;
    const std::span pages = std::span(kv.pages).subspan(static_cast<size_t>(kv.begins[i]),
                                                        static_cast<size_t>(kv.begins[i + 1] - kv.begins[i]));
    TERN_CHECK(static_cast<int64_t>(pages.size()) * kv.page_tokens >= total,
               "KvView: sequence {} has {} pages for {} tokens", i, pages.size(), total);
    for (const int32_t page : pages)
      TERN_CHECK(0 <= page && page < kv.keys[at].rows(), "KvView: page {} of {}", page, kv.keys[at].rows());
    store_rows<T>(u, store, pages.data(), past, count, q + begin * u.qkv_rows());
    sequences[i] = {begin, count, total, nullptr, nullptr, pages.data()};
    point_at_cache(store, sequences[i]);
  }
  const std::vector<float> slopes = slopes_of(u);
  run_attention<T>(kernel_shape(u, u.kv_heads * u.head_dim, slopes), sequences, q, context.span<T>().data(), lse);
}

}  // namespace

ThreadBytes attention_thread_bytes(const AttentionSpec& u, const ThreadWork& work) {
  const AttentionShape shape = kernel_shape(u, u.qkv_rows(), {});
  int64_t bytes = attention_scratch_bytes(shape);  // a cache's rows go this way also where training's do not
  if (work.gradients) bytes = attention_backward_scratch_bytes(shape, work.sequence);
  if (work.gradients && on_tiles(u, work.dtype, work.multiply))
    bytes = std::max(tile_attention_scratch_bytes(shape, work.sequence, false),
                     tile_attention_scratch_bytes(shape, work.sequence, true));
  return {bytes, bytes};
}

// n = norm(x),  (q, k, v) = qkv(n),  q and k normed by heads (or not) and turned by their positions,
// o_h = Σ_j softmax_j(score_hj) v_j over the keys seen,  score = q_h·k_j/√d, capped and biased (or not),  f = out(o);
// of a head with a sink the softmax has one score more, whose value is zero
void attention_forward_branch(const AttentionSpec& u, const ModelSpec& spec, const AttentionWeights& w,
                              const Rows& rows, const Tensor& x, const Tensor& out, AttentionSaved* saved, KvView* kv,
                              int layer, const Compute& c) {
  TERN_CHECK(!saved || !kv, "attention: training goes over plain rows, not over a KV cache");
  TERN_CHECK(u.causal || !kv, "attention: a KV cache of keys that earlier queries see");
  TERN_CHECK(!rows.kv || (!saved && !kv), "attention: rows are rounded for a cache where there is one, or in training");
  const AttentionSpec seen = heads_of_context(u, c);  // over all rows of a context group
  const int64_t T = static_cast<int64_t>(rows.tokens.size()), E = u.heads * u.head_dim;
  const bool swaps = swaps_heads(c), head_norms = u.head_norm != HeadNormKind::none;
  const Shape context_shape{swaps ? rows_of_context(rows) : T, seen.heads * seen.head_dim};
  const DType dtype = x.dtype(), sums = wide_type(dtype);
  const MemoryClass kept = saved ? MemoryClass::activations : MemoryClass::workspace;
  NormStatistics stats;
  Tensor lse, context, swapped, query_rstd, key_rstd;
  LatentSaved latent;
  if (saved) {
    stats = allocate_statistics(u.norm, x.rows(), dtype, c);
    lse = c.arena.allocate(sums, {context_shape[0], seen.heads}, kept);
    context = c.arena.allocate(dtype, context_shape, kept);
    if (swaps && !head_norms) swapped = c.arena.allocate(dtype, {context_shape[0], seen.qkv_rows()}, kept);
    if (head_norms) {
      query_rstd = c.arena.allocate(sums, {T, u.query_norms()}, kept);
      key_rstd = c.arena.allocate(sums, {T, u.key_norms()}, kept);
    }
    if (u.latent.present()) latent = allocate_latent(u, T, dtype, c);
  }
  // What is swapped is kept, but rows that the heads' norms read stay and are swapped again.
  Tensor qkv = c.arena.allocate(dtype, {T, u.qkv_rows()}, swaps && !head_norms ? MemoryClass::workspace : kept);
  if (u.latent.present())
    latent_forward(u, w.latent, normed_rows(u.norm, w.norm, x, stats.mean_T, stats.rstd_T, c), qkv,
                   saved ? &latent : nullptr, c);
  else
    gathered_forward(w.qkv, normed_rows(u.norm, w.norm, x, stats.mean_T, stats.rstd_T, c), qkv, c);
  if (swaps && !head_norms) {
    turn(u, spec, rows, false, qkv);
    qkv = rows_for_heads(std::move(qkv), qkv_sections(u), std::move(swapped), c);
  }
  if (saved) {
    saved->latent = latent;
    saved->x_TD = x, saved->mean_T = stats.mean_T, saved->rstd_T = stats.rstd_T, saved->qkv_TC = qkv;
    saved->context_TE = context, saved->lse_TH = lse, saved->query_rstd = query_rstd, saved->key_rstd = key_rstd;
    saved->dqkv_TC = saved->dnormed_TD = saved->dquery_norm = saved->dkey_norm = saved->dsinks = {};
  }
  if (!swaps || head_norms) qkv = prepared(u, spec, w, rows, qkv, query_rstd, key_rstd, saved != nullptr, c);
  if (swaps && head_norms) qkv = rows_for_heads(std::move(qkv), qkv_sections(u), {}, c);
  const bool turned = keeps_turned(rows, kv, layer);
  if (turned) turn_heads(qkv, u.heads + 2 * u.kv_heads, u.head_dim, false);
  if (rows.kv) round_rows(u, *rows.kv, qkv);
  if (!saved) context = c.arena.allocate(dtype, context_shape, kept);
  if (!saved && (u.sinks || in_ring(c))) lse = c.arena.allocate(sums, {context_shape[0], seen.heads}, kept);
  ops::by_dtype(dtype, [&]<class N>() {
    if (kv) return attend_cache<N>(u, rows, qkv, *kv, layer, context, lse);
    attend_rows<N>(u, rows, qkv, context, lse, c);
  });
  if (u.sinks) take_sinks(u, w.sinks, context, lse, c);
  qkv = lse = {};
  if (turned) turn_heads(context, u.heads, u.head_dim, true);
  if (swaps) context = heads_for_rows(std::move(context), std::array{E}, {}, c);
  columns_forward(w.out, latent_values(u, context, c), out, c);
}

namespace {

// dq, dk and dv of every sequence, into dqkv: of the heads that this rank computes.
void scores_backward(const AttentionSpec& whole, const Rows& rows, const Tensor& qkv, const Tensor& dcontext,
                     const AttentionSaved& saved, const Tensor& dqkv, const Compute& c) {
  const AttentionSpec u = heads_of_context(whole, c);
  const std::vector<float> slopes = own_slopes(whole, c);
  if (in_ring(c))
    return ring_backward(kernel_shape(u, ring_stride(u), slopes), rows, qkv, saved.context_TE, dcontext, saved.lse_TH,
                         dqkv, c);
  ops::by_dtype(qkv.dtype(), [&]<class T>() {
    const AttentionShape shape = kernel_shape(u, u.qkv_rows(), slopes);
    const T* q = qkv.span<T>().data();
    T* dq = dqkv.span<T>().data();
    const T *out = saved.context_TE.span<T>().data(), *dout = dcontext.span<T>().data();
    const int64_t k = key_offset(u), v = value_offset(u);
    if constexpr (std::is_same_v<T, bf16>)
      if (on_tiles(u, qkv.dtype(), c.multiply))
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

void attend_backward(const AttentionSpec& u, const ModelSpec& spec, const AttentionWeights& w, const Rows& rows,
                     const Tensor& df, AttentionSaved& saved, const Compute& c) {
  const Tensor dcontext = c.arena.allocate(df.dtype(), saved.context_TE.shape(), MemoryClass::workspace);
  const Tensor all_df = latent_dcontext(u, w.out, df, dcontext, c);  // kept to the end, as unit_cost counts
  const bool head_norms = u.head_norm != HeadNormKind::none;
  const Tensor qkv = head_norms ? prepared(u, spec, w, rows, saved.qkv_TC, {}, {}, true, c) : saved.qkv_TC;
  scores_backward(u, rows, qkv, dcontext, saved, saved.dqkv_TC, c);
  if (u.sinks) add_sinks_gradient(u, w.sinks, saved.context_TE, dcontext, saved.lse_TH, saved.dsinks, c);
}

// What the output's matrix multiplied.
Tensor out_input(const AttentionSpec& u, const AttentionSaved& saved, const Compute& c) {
  if (!swaps_heads(c)) return latent_values(u, saved.context_TE, c);
  return latent_values(u, heads_for_rows(saved.context_TE, std::array{u.heads * u.head_dim}, {}, c), c);
}

// Of a context group, which swaps rows for heads and back. What the heads' norms read was kept by rows: it is prepared and swapped again.
void context_backward(const AttentionSpec& u, const ModelSpec& spec, const AttentionWeights& w, const Rows& rows,
                      const Tensor& df, AttentionSaved& saved, const Compute& c) {
  const int64_t T = saved.dqkv_TC.rows(), E = u.heads * u.head_dim;
  Tensor dcontext = c.arena.allocate(df.dtype(), {T, E}, MemoryClass::workspace);
  latent_dcontext(u, w.out, df, dcontext, c);
  dcontext = rows_for_heads(std::move(dcontext), std::array{E}, {}, c);
  Tensor qkv = saved.qkv_TC;
  if (u.head_norm != HeadNormKind::none)
    qkv = rows_for_heads(prepared(u, spec, w, rows, qkv, {}, {}, true, c), qkv_sections(u), {}, c);
  Tensor dqkv = c.arena.allocate(df.dtype(), qkv.shape(), MemoryClass::workspace);
  scores_backward(u, rows, qkv, dcontext, saved, dqkv, c);
  if (u.sinks) add_sinks_gradient(u, w.sinks, saved.context_TE, dcontext, saved.lse_TH, saved.dsinks, c);
  dcontext = qkv = {};
  heads_for_rows(std::move(dqkv), qkv_sections(u), saved.dqkv_TC, c);
}

}  // namespace

// do = df·W_out,  (dq, dk, dv) by attention_backward (kernels/cpu/attention.h), dq and dk turned back and taken through
// the heads' norms,  dn = dqkv·W_qkv,  dx = norm'(dn)
void attention_backward_branch(const AttentionSpec& u, const ModelSpec& spec, const AttentionWeights& w,
                               const Rows& rows, const Tensor& df, AttentionSaved& saved, const Tensor& dx,
                               MemoryClass left, const Compute& c) {
  const DType dtype = df.dtype();
  saved.dqkv_TC = c.arena.allocate(dtype, {static_cast<int64_t>(rows.tokens.size()), u.qkv_rows()}, left);
  if (u.norm.present()) saved.dnormed_TD = c.arena.allocate(dtype, df.shape(), left);
  if (u.latent.present()) allocate_latent_gradients(u, saved.latent, left, c);
  const bool head_norms = u.head_norm != HeadNormKind::none;
  if (head_norms) {
    saved.dquery_norm = c.arena.zeros(wide_type(dtype), {u.query_norm_width()}, left);
    saved.dkey_norm = c.arena.zeros(wide_type(dtype), {u.key_norm_width()}, left);
  }
  if (u.sinks) saved.dsinks = c.arena.zeros(wide_type(dtype), {u.heads}, left);
  if (swaps_heads(c))
    context_backward(u, spec, w, rows, df, saved, c);
  else
    attend_backward(u, spec, w, rows, df, saved, c);
  turn(u, spec, rows, true, saved.dqkv_TC);
  if (head_norms) {
    const NormSpec& like = u.head_norm_like;
    ops::head_norm_backward(like, w.query_norm, saved.qkv_TC, 0, u.query_norms(), saved.query_rstd, saved.dqkv_TC,
                            saved.dquery_norm);
    ops::head_norm_backward(like, w.key_norm, saved.qkv_TC, key_offset(u), u.key_norms(), saved.key_rstd, saved.dqkv_TC,
                            saved.dkey_norm);
  }
  const Tensor dn = u.norm.present() ? saved.dnormed_TD : dx;
  if (u.latent.present())
    latent_backward(u, w.latent, saved.dqkv_TC, saved.latent, dn, c);
  else
    rows_backward_input(w.qkv, saved.dqkv_TC, dn, c);
  if (!u.norm.present()) return;
  ops::norm_backward_input(u.norm, w.norm, saved.dnormed_TD, saved.x_TD, saved.mean_T, saved.rstd_T, dx);
}

// dW_out += dfᵀ·o,  dW_qkv += dqkvᵀ·n, biases their rows' sums; n is made again, with the bits of the forward
void attention_weight_branch(const AttentionSpec& u, const AttentionWeights& w, const Tensor& df,
                             const AttentionSaved& saved, AttentionWeights& g, const Compute& c) {
  columns_backward_weight(w.out, df, out_input(u, saved, c), g.out, c);
  if (u.latent.present())
    latent_weight(u, w.latent, saved.dqkv_TC, saved.latent, w.norm, saved.x_TD, g.latent, c);
  else
    linear_backward_weight(w.qkv, saved.dqkv_TC,
                           all_rows(normed_rows(u.norm, w.norm, saved.x_TD, {}, {}, c), saved.dqkv_TC.rows(), c), g.qkv,
                           c);
  if (u.norm.present())
    ops::norm_backward_weight(u.norm, saved.dnormed_TD, saved.x_TD, saved.mean_T, saved.rstd_T, g.norm);
  if (u.sinks) ops::add_gradient(saved.dsinks, g.sinks);
  if (u.head_norm == HeadNormKind::none) return;
  ops::add_gradient(saved.dquery_norm, g.query_norm.weight);
  ops::add_gradient(saved.dkey_norm, g.key_norm.weight);
}

}  // namespace tern
