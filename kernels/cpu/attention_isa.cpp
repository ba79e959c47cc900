// Attention on one instruction set, in tiles: rows of a query tile are (position, query head of one kv head), so that
// the query heads share the loaded keys. Every element of a product is a chain over the summed dimension alone; a
// masked key contributes an exact zero. So a row's bits depend on its own query and keys, not on the tile it is in.

#include "kernels/cpu/attention_keys_impl.h"
#include "kernels/cpu/attention_products_impl.h"
#include "kernels/cpu/vector_math_impl.h"

namespace tern::TERN_ISA_NAMESPACE {
namespace {

constexpr float kInfinity = __builtin_inff();

// The lanes of the key block at `base` that a query at `position` sees: [from, to), empty if from >= to.
struct Seen {
  int64_t from, to;
};
inline Seen seen_in_block(const AttentionShape& shape, int64_t position, int64_t base, int64_t num_keys) {
  const int64_t end = shape.causal ? smaller(position + 1, num_keys) : num_keys;
  return {larger(0, first_seen(shape, position) - base), smaller(kKeyBlock, end - base)};
}
inline void clear_unseen(float* row, Seen seen) {
  for (int64_t j = 0; j < smaller(seen.from, kKeyBlock); ++j) row[j] = 0.0f;
  for (int64_t j = larger(seen.to, 0); j < kKeyBlock; ++j) row[j] = 0.0f;
}

inline void clear(Rows m, int64_t count) {
  for (int64_t i = 0; i < count * m.stride; i += kLanes) store(m.data + i, splat(0.0f));
}

// Row r of a query tile: row first + r / group of the queries, query head kv_head·group + r % group.
struct QueryRows {
  const AttentionShape& shape;
  AttentionTile tile;
  int64_t group;
  int64_t ahead;  // the position of the first query, counted from the first key
  int64_t count() const { return tile.count * group; }
  int64_t row(int64_t r) const { return tile.first + r / group; }
  int64_t position(int64_t r) const { return ahead + row(r); }
  int64_t head(int64_t r) const { return tile.kv_head * group + r % group; }
  template <class T>
  T* at(T* base, int64_t r, int64_t stride) const {
    return base + row(r) * stride + head(r) * shape.head_dim;
  }
};

template <class T>
inline void load_queries(const QueryRows& rows, const T* base, int64_t stride, Rows out) {
  for (int64_t r = 0; r < rows.count(); ++r) {
    const T* row = rows.at(base, r, stride);
    load_rows(&row, 1, rows.shape.head_dim, {out.data + r * out.stride, out.stride});
  }
}
// + 0: a sum that vanished may be -0 or +0, by whether masked keys or queries stood beside it in its tile
template <class T>
inline void store_row(T* to, const float* from, int64_t dim, float factor, bool adds) {
  for_each_lanes(dim, [&](int64_t d, int64_t n) {
    const Vec before = adds ? load_some(to + d, n) : splat(0.0f);
    store_some(to + d, load(from + d) * factor + before, n);
  });
}

/// tanh within 3e-7 relative: its series near zero, elsewhere by the sigmoid.
inline Vec tanh(Vec x) {
  const Vec square = x * x;
  Vec near = fma(square, splat(62.0f / 2835.0f), splat(-17.0f / 315.0f));
  near = fma(near, square, splat(2.0f / 15.0f));
  near = fma(near, square, splat(-1.0f / 3.0f));
  near = fma(near * square, x, x);
  return select(square < 0.09f, near, fma(sigmoid(x + x), splat(2.0f), splat(-1.0f)));
}
inline bool is_plain(const AttentionShape& shape) { return shape.softcap == 0 && !shape.slopes; }
inline float bf16_of(float x) { return to_float(to_bf16(x)); }
// Of scores of the block at `base` for one query: the product as the softmax wants it. slopes: its derivative, if
// wanted. The scale is taken here.
inline void shape_scores(const AttentionShape& shape, int64_t head, int64_t position, int64_t base, float* scores,
                         float* slopes) {
  const float slope = shape.slopes ? shape.slopes[head] : 0.0f;
  float fall[kKeyBlock] = {};
  if (shape.slopes && shape.slopes_in_bf16) {
    const float here = bf16_of(slope * static_cast<float>(position));
    for (int64_t j = 0; j < kKeyBlock; ++j)
      fall[j] = (bf16_of(slope * static_cast<float>(base + j)) - here) * shape.slope_factor;
  } else if (shape.slopes) {
    for (int64_t j = 0; j < kKeyBlock; ++j)
      fall[j] = slope * static_cast<float>(base + j - position) * shape.slope_factor;
  }
  for (int64_t j = 0; j < kKeyBlock; j += kLanes) {
    Vec s = load(scores + j) * shape.scale;
    if (shape.softcap > 0) {
      const Vec t = tanh(s * (1.0f / shape.softcap));
      s = t * shape.softcap;
      if (slopes) store(slopes + j, 1.0f - t * t);
    } else if (slopes) {
      store(slopes + j, splat(1.0f));
    }
    store(scores + j, s + load(fall + j));
  }
}

// One row of scores against a block: scaled, exponentiated against the running maximum (unseen keys: zero), and the sums so far rescaled.
struct Running {
  float top, total;
};
inline void fold_block(float* scores, Seen seen, float scale, Running& run, Rows sums, int64_t r) {
  VecInt lane;
  for (int64_t i = 0; i < kLanes; ++i) lane[i] = static_cast<int32_t>(i);
  Vec s[kKeyBlock / kLanes], best = splat(-kInfinity);
  for (int64_t j = 0; j < kKeyBlock; j += kLanes) {
    const auto from = static_cast<int32_t>(seen.from - j), to = static_cast<int32_t>(seen.to - j);
    const VecInt sees = (VecInt)(lane >= from) & (VecInt)(lane < to);
    s[j / kLanes] = select(sees, load(scores + j) * scale, splat(-kInfinity));
    best = max(s[j / kLanes], best);
  }
  const float block_top = largest(best), top = block_top > run.top ? block_top : run.top;
  const float base = top == -kInfinity ? 0.0f : top;  // nothing seen yet: e^(-inf - 0) = 0
  Vec total = splat(0.0f);
  for (int64_t j = 0; j < kKeyBlock; j += kLanes) {
    const bool any = seen.from < j + kLanes && seen.to > j;
    const Vec p = any ? exp(s[j / kLanes] - base) : splat(0.0f);
    store(scores + j, p);
    total += p;
  }
  if (top == run.top) {
    run.total += sum(total);
    return;
  }
  const float shrink = exp(splat(run.top - base))[0];
  run = {top, run.total * shrink + sum(total)};
  float* row = sums.data + r * sums.stride;
  for (int64_t d = 0; d < sums.stride; d += kLanes) store(row + d, load(row + d) * shrink);
}

// A row of earlier keys goes on from their softmax: e^lse is its sum.
template <class T>
inline void begin_onto(const QueryRows& rows, const AttentionSequence<T>& s, const float* lse, Rows sums,
                       Running* running) {
  const AttentionShape& shape = rows.shape;
  for (int64_t r = 0; r < rows.count(); ++r) {
    const float top = lse[(rows.row(r) + s.query_begin) * shape.heads + rows.head(r)];
    if (top == -kInfinity) continue;
    running[r] = {top, 1.0f};
    const float* from = rows.at(s.onto + s.query_begin * shape.out_stride, r, shape.out_stride);
    float* to = sums.data + r * sums.stride;
    for_each_lanes(shape.head_dim, [&](int64_t d, int64_t n) { store_some(to + d, load_some(from + d, n), n); });
  }
}

// Rows of queries from row `begin` on, divided by their sums, to `to` and lse.
template <class T>
inline void finish(const QueryRows& rows, int64_t begin, Rows sums, const Running* running, T* to, float* lse) {
  const AttentionShape& shape = rows.shape;
  for (int64_t r = 0; r < rows.count(); ++r) {
    T* y = rows.at(to, r, shape.out_stride);
    const float* row = sums.data + r * sums.stride;
    // + 0: a sum that vanished may be -0 or +0, by whether masked keys stood behind it in its tile
    for_each_lanes(shape.head_dim,
                   [&](int64_t d, int64_t n) { store_some(y + d, load(row + d) / running[r].total + 0.0f, n); });
    if (lse)
      lse[(rows.row(r) + begin) * shape.heads + rows.head(r)] = running[r].top + __builtin_logf(running[r].total);
  }
}

// E: T, or uint8_t for rows of another type.
template <class T, class Products, class E>
void forward_over(const AttentionShape& shape, const AttentionSequence<T>& s, AttentionTile tile,
                  const AttentionNext<T>& after, const T* q, T* out, float* lse, float* scratch_memory) {
  const int64_t dim = shape.head_dim;
  const QueryRows rows = {shape, tile, shape.heads / shape.kv_heads, queries_ahead(s)};
  const int64_t num_rows = rows.count(), begin = s.query_begin;
  Scratch scratch = {scratch_memory};
  Products products(scratch, num_rows, dim);
  LoadedBlock<T, E> block(scratch, dim);
  const RowsFrom<E> from = rows_from<T, E>(s);
  const Rows scores = products.scores, sums = products.sums;
  auto* running = reinterpret_cast<Running*>(scratch.rows(num_rows, 2).data);

  for (int64_t r = 0; r < num_rows; ++r) products.load_query(r, rows.at(q + begin * shape.q_stride, r, shape.q_stride));
  clear(sums, num_rows);
  for (int64_t r = 0; r < num_rows; ++r) running[r] = {-kInfinity, 0.0f};
  if (s.onto) begin_onto(rows, s, lse, sums, running);

  const auto [first, end] = keys_of(shape, s, tile);
  const float fold_scale = is_plain(shape) ? shape.scale : 1.0f;
  const bool streaming = tile.count == 1;  // a decoded token: its keys and values come from memory, once
  const bool goes_on = after.sequence && after.tile.count == 1 && !after.sequence->kept.keys == (sizeof(E) != 1);
  for (int64_t base = first / kKeyBlock * kKeyBlock; base < end; base += kKeyBlock) {
    const int64_t count = smaller(kKeyBlock, end - base);
    const E *key_rows[kKeyBlock], *value_rows[kKeyBlock];
    const int64_t gone = larger(0, first - base);  // keys before every window, whose pages may be
    for (int64_t i = 0; i < gone; ++i) key_rows[i] = value_rows[i] = nullptr;
    point_at_pages(shape, s, from, tile.kv_head, base + gone, count - gone, key_rows + gone, value_rows + gone);
    NextBlock<E> next;
    next.count = next.fetched = 0;
    if (streaming && base + kKeyBlock < end)
      point_at_next(shape, s, tile, base + kKeyBlock, next);
    else if (streaming && goes_on)
      point_at_next(shape, *after.sequence, after.tile, 0, next);
    block.load(products, s.kept.type, key_rows, value_rows, count, next);
    products.make_scores();
    for (int64_t r = 0; r < num_rows; ++r) {
      next.fetch(kKeyBlock / num_rows + 1);
      float* row = scores.data + r * kKeyBlock;
      if (!is_plain(shape)) shape_scores(shape, rows.head(r), rows.position(r), base, row, nullptr);
      fold_block(row, seen_in_block(shape, rows.position(r), base, s.num_keys), fold_scale, running[r], sums, r);
    }
    products.add_values();
  }

  const int64_t out_begin = begin * shape.out_stride;
  for (int64_t r = 0; s.onto && r < num_rows; ++r)  // what has seen no key yet: 0 and −∞
    if (running[r].total == 0.0f) running[r].total = 1;
  if (s.onto)
    finish(rows, begin, sums, running, s.onto + out_begin, lse);
  else
    finish(rows, begin, sums, running, out + out_begin, lse);
}

template <class T, class Products>
void forward(const AttentionShape& shape, const AttentionSequence<T>& s, AttentionTile tile,
             const AttentionNext<T>& after, const T* q, T* out, float* lse, float* scratch_memory) {
  const auto run = s.kept.keys ? forward_over<T, Products, uint8_t> : forward_over<T, Products, T>;
  run(shape, s, tile, after, q, out, lse, scratch_memory);
}

// What a query tile brings to the backward: q, dout, lse and D = dout·out per row.
struct QuerySide {
  Rows query, dout;
  float *lse, *delta;
};
inline QuerySide place_queries(Scratch& scratch, int64_t num_rows, int64_t padded) {
  return {scratch.rows(num_rows, padded), scratch.rows(num_rows, padded), scratch.rows(num_rows, 1).data,
          scratch.rows(num_rows, 1).data};
}
template <class T, class G>
inline void load_query_side(const QueryRows& rows, const AttentionGradients<T, G>& g, QuerySide side) {
  const AttentionShape& shape = rows.shape;
  load_queries(rows, g.q, shape.q_stride, side.query);
  load_queries(rows, g.dout, shape.out_stride, side.dout);
  for (int64_t r = 0; r < rows.count(); ++r) {
    const T* out = rows.at(g.out, r, shape.out_stride);
    const float* dout = side.dout.data + r * side.dout.stride;
    Vec dot = splat(0.0f);
    for_each_lanes(shape.head_dim,
                   [&](int64_t d, int64_t n) { dot = fma(load(dout + d), load_some(out + d, n), dot); });
    side.delta[r] = sum(dot);
    side.lse[r] = g.lse[rows.row(r) * shape.heads + rows.head(r)];
  }
}

// scores become P = exp(scale·s - lse), dscores (dout·v on entry) become dS = P (dout·v - D); zero where unseen.
inline void weights_and_gradients(const QueryRows& rows, const QuerySide& side, int64_t base, int64_t num_keys,
                                  Rows scores, Rows dscores) {
  for (int64_t r = 0; r < rows.count(); ++r) {
    float *p = scores.data + r * kKeyBlock, *ds = dscores.data + r * kKeyBlock;
    if (!is_plain(rows.shape)) {
      float slopes[kKeyBlock];
      shape_scores(rows.shape, rows.head(r), rows.position(r), base, p, slopes);
      for (int64_t j = 0; j < kKeyBlock; j += kLanes) {
        const Vec weight = exp(load(p + j) - side.lse[r]);
        store(p + j, weight);
        store(ds + j, weight * (load(ds + j) - side.delta[r]) * load(slopes + j));
      }
    } else {
      for (int64_t j = 0; j < kKeyBlock; j += kLanes) {
        const Vec weight = exp(fma(load(p + j), splat(rows.shape.scale), splat(-side.lse[r])));
        store(p + j, weight);
        store(ds + j, weight * (load(ds + j) - side.delta[r]));
      }
    }
    const Seen seen = seen_in_block(rows.shape, rows.position(r), base, num_keys);
    clear_unseen(p, seen);
    clear_unseen(ds, seen);
  }
}

template <class T>
inline void point_at_rows(const T* base, int64_t first, int64_t count, int64_t stride, const T** rows) {
  for (int64_t i = 0; i < count; ++i) rows[i] = base + (first + i) * stride;
}

// The block's keys and values, transposed: (dim, kKeyBlock) each.
template <class T, class G>
inline void load_key_block(const AttentionShape& shape, const AttentionGradients<T, G>& g, AttentionTile block,
                           Rows keys, Rows values) {
  const int64_t offset = block.kv_head * shape.head_dim;
  const T* at[kKeyBlock];
  point_at_rows(g.v + offset, block.first, block.count, shape.kv_stride, at);
  load_transposed(at, block.count, shape.head_dim, values);
  point_at_rows(g.k + offset, block.first, block.count, shape.kv_stride, at);
  load_transposed(at, block.count, shape.head_dim, keys);
}
// The same with its keys as rows too, for dq: (kKeyBlock, padded dim).
template <class T, class G>
inline void load_key_block(const AttentionShape& shape, const AttentionGradients<T, G>& g, AttentionTile block,
                           Rows keys, Rows values, Rows key_rows) {
  load_key_block(shape, g, block, keys, values);
  const T* at[kKeyBlock];
  point_at_rows(g.k + block.kv_head * shape.head_dim, block.first, block.count, shape.kv_stride, at);
  load_rows(at, block.count, shape.head_dim, key_rows);
}

template <class T, class G>
inline void store_queries(const QueryRows& rows, const AttentionGradients<T, G>& g, Rows sums) {
  for (int64_t r = 0; r < rows.count(); ++r)
    store_row(rows.at(g.dq, r, g.dq_stride), sums.data + r * sums.stride, rows.shape.head_dim, rows.shape.scale,
              g.adds);
}
template <class T, class G>
inline void store_keys(const AttentionShape& shape, const AttentionGradients<T, G>& g, AttentionTile tile, Rows dkeys,
                       Rows dvalues) {
  for (int64_t j = 0; j < tile.count; ++j) {
    const int64_t row = (tile.first + j) * shape.kv_stride + tile.kv_head * shape.head_dim;
    store_row(g.dk + row, dkeys.data + j * dkeys.stride, shape.head_dim, shape.scale, g.adds);
    store_row(g.dv + row, dvalues.data + j * dvalues.stride, shape.head_dim, 1.0f, g.adds);
  }
}

// dq of one query tile: key blocks ascending.
template <class T, class G>
void backward_queries(const AttentionShape& shape, const AttentionGradients<T, G>& g, AttentionTile tile,
                      float* scratch_memory) {
  const int64_t dim = shape.head_dim, padded = padded_dim(dim);
  const QueryRows rows = {shape, tile, shape.heads / shape.kv_heads, g.ahead};
  const int64_t num_rows = rows.count();
  Scratch scratch = {scratch_memory};
  const QuerySide side = place_queries(scratch, num_rows, padded);
  const Rows keys = scratch.rows(dim, kKeyBlock), values = scratch.rows(dim, kKeyBlock),
             key_rows = scratch.rows(kKeyBlock, padded);
  const Rows scores = scratch.rows(num_rows, kKeyBlock), dscores = scratch.rows(num_rows, kKeyBlock);
  const Rows sums = scratch.rows(num_rows, padded);

  load_query_side(rows, g, side);
  clear(sums, num_rows);
  const int64_t first = g.ahead + tile.first;
  const int64_t last = shape.causal ? smaller(first + tile.count, g.num_keys) - 1 : g.num_keys - 1;
  for (int64_t base = first_seen(shape, first) / kKeyBlock * kKeyBlock; base <= last; base += kKeyBlock) {
    const int64_t count = smaller(kKeyBlock, last + 1 - base);
    load_key_block(shape, g, {tile.kv_head, base, count}, keys, values, key_rows);
    small_gemm(num_rows, whole_lanes(count), dim, {side.query.data, padded, 1}, keys, scores, false);
    small_gemm(num_rows, whole_lanes(count), dim, {side.dout.data, padded, 1}, values, dscores, false);
    weights_and_gradients(rows, side, base, g.num_keys, scores, dscores);
    small_gemm(num_rows, padded, count, {dscores.data, kKeyBlock, 1}, key_rows, sums, true);
  }
  store_queries(rows, g, sums);
}

// dk and dv of one key block: query tiles ascending from the first that sees it.
template <class T, class G>
void backward_keys(const AttentionShape& shape, const AttentionGradients<T, G>& g, AttentionTile tile,
                   float* scratch_memory) {
  const int64_t dim = shape.head_dim, padded = padded_dim(dim), base = tile.first;
  const int64_t group = shape.heads / shape.kv_heads, positions = larger(1, kTileRows / group),
                max_rows = positions * group;
  Scratch scratch = {scratch_memory};
  const QuerySide side = place_queries(scratch, max_rows, padded);
  const Rows keys = scratch.rows(dim, kKeyBlock), values = scratch.rows(dim, kKeyBlock);
  const Rows scores = scratch.rows(max_rows, kKeyBlock), dscores = scratch.rows(max_rows, kKeyBlock);
  const Rows dkeys = scratch.rows(kKeyBlock, padded), dvalues = scratch.rows(kKeyBlock, padded);

  load_key_block(shape, g, tile, keys, values);
  clear(dkeys, kKeyBlock);
  clear(dvalues, kKeyBlock);

  const int64_t behind = base - g.ahead;  // the block's first key, from the first query
  const int64_t end = shape.window > 0 ? smaller(g.num_queries, behind + tile.count - 1 + shape.window) : g.num_queries;
  for (int64_t first = shape.causal ? larger(0, behind) : 0; first < end; first += positions) {
    const QueryRows rows = {shape, {tile.kv_head, first, smaller(positions, end - first)}, group, g.ahead};
    load_query_side(rows, g, side);
    small_gemm(rows.count(), whole_lanes(tile.count), dim, {side.query.data, padded, 1}, keys, scores, false);
    small_gemm(rows.count(), whole_lanes(tile.count), dim, {side.dout.data, padded, 1}, values, dscores, false);
    weights_and_gradients(rows, side, base, g.num_keys, scores, dscores);
    small_gemm(tile.count, padded, rows.count(), {scores.data, 1, kKeyBlock}, side.dout, dvalues, true);
    small_gemm(tile.count, padded, rows.count(), {dscores.data, 1, kKeyBlock}, side.query, dkeys, true);
  }
  store_keys(shape, g, tile, dkeys, dvalues);
}

// Rows [first, first + count) of a tile's side.
inline QuerySide part_of(const QuerySide& side, int64_t first) {
  const auto from = [&](Rows m) { return Rows{m.data + first * m.stride, m.stride}; };
  return {from(side.query), from(side.dout), side.lse + first, side.delta + first};
}

// dq, dk and dv of all queries of one kv head: the two kernels above in one pass over the key blocks, which makes P once. The same chains.
template <class T>
void backward_head(const AttentionShape& shape, const AttentionGradients<T>& g, int64_t kv_head,
                   float* scratch_memory) {
  const int64_t dim = shape.head_dim, padded = padded_dim(dim), group = shape.heads / shape.kv_heads,
                positions = larger(1, kTileRows / group), tile_rows = positions * group;
  const QueryRows all = {shape, {kv_head, 0, g.num_queries}, group, 0};
  Scratch scratch = {scratch_memory};
  const QuerySide side = place_queries(scratch, all.count(), padded);
  const Rows sums = scratch.rows(all.count(), padded);
  const Rows keys = scratch.rows(dim, kKeyBlock), values = scratch.rows(dim, kKeyBlock),
             key_rows = scratch.rows(kKeyBlock, padded);
  const Rows scores = scratch.rows(tile_rows, kKeyBlock), dscores = scratch.rows(tile_rows, kKeyBlock);
  const Rows dkeys = scratch.rows(kKeyBlock, padded), dvalues = scratch.rows(kKeyBlock, padded);

  load_query_side(all, g, side);
  clear(sums, all.count());
  for (int64_t base = 0; base < g.num_keys; base += kKeyBlock) {
    const int64_t count = smaller(kKeyBlock, g.num_keys - base);
    load_key_block(shape, g, {kv_head, base, count}, keys, values, key_rows);
    clear(dkeys, kKeyBlock);
    clear(dvalues, kKeyBlock);
    const int64_t end = shape.window > 0 ? smaller(g.num_queries, base + count - 1 + shape.window) : g.num_queries;
    for (int64_t first = shape.causal ? base : 0; first < end; first += positions) {
      const QueryRows rows = {shape, {kv_head, first, smaller(positions, end - first)}, group, 0};
      const QuerySide part = part_of(side, first * group);
      const Rows dquery = {sums.data + first * group * padded, padded};
      small_gemm(rows.count(), whole_lanes(count), dim, {part.query.data, padded, 1}, keys, scores, false);
      small_gemm(rows.count(), whole_lanes(count), dim, {part.dout.data, padded, 1}, values, dscores, false);
      weights_and_gradients(rows, part, base, g.num_keys, scores, dscores);
      small_gemm(count, padded, rows.count(), {scores.data, 1, kKeyBlock}, part.dout, dvalues, true);
      small_gemm(count, padded, rows.count(), {dscores.data, 1, kKeyBlock}, part.query, dkeys, true);
      small_gemm(rows.count(), padded, count, {dscores.data, kKeyBlock, 1}, key_rows, dquery, true);
    }
    store_keys(shape, g, {kv_head, base, count}, dkeys, dvalues);
  }
  store_queries(all, g, sums);
}

#if defined(__AMX_BF16__)
using HalfProducts = TileProducts;
#else
using HalfProducts = VectorProducts<bf16>;
#endif

}  // namespace

const AttentionTable attention_table = {
    {forward<float, VectorProducts<float>>, backward_queries<float, float>, backward_keys<float, float>,
     backward_head<float>, backward_queries<float, float>, backward_keys<float, float>},
    {forward<bf16, HalfProducts>, backward_queries<bf16, bf16>, backward_keys<bf16, bf16>, backward_head<bf16>,
     backward_queries<bf16, float>, backward_keys<bf16, float>}};

}  // namespace tern::TERN_ISA_NAMESPACE
