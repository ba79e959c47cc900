// Attention of training on the tile unit, or on AVX512-BF16. Scores are made with keys as rows and queries as columns, Sᵀ = K·Qᵀ: what
// belongs to a query (its maximum, its sum, its log-sum-exp, D) lies along the lanes of a vector, and no sum goes
// across lanes.
//
//   P = exp(scale·S - lse),  O = P·V,  D = Σ dO∘O,  dP = dO·Vᵀ,  dS = P∘(dP - D)
//   dV = Pᵀ·dO,  dK = scale·dSᵀ·Q,  dQ = scale·dS·K
//
// Panels of 32 queries see blocks of 32 keys; blocks that no query of the panel sees are not made.

#include "kernels/cpu/pieces_impl.h"
#include "kernels/cpu/tile_attention_table.h"
#include "kernels/cpu/tiles_impl.h"
#include "kernels/cpu/vector_math_impl.h"

namespace tern::TERN_ISA_NAMESPACE {
namespace {

#if defined(__AVX512BF16__)

constexpr int64_t kBlock = kTileAttentionBlock;
constexpr int64_t kBlockElements = kBlock * kBlock;
constexpr int64_t kScoreElements = 1 << 16;  // of a chunk of panels in the backward, while that is 32 queries or more
constexpr int64_t kMostQueries = 256;
constexpr float kInfinity = __builtin_inff();

inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/// Blocks of keys [first, last) that a panel of queries from position `query` sees.
struct KeyBlocks {
  int64_t first, last;
};
inline KeyBlocks blocks_seen(const AttentionShape& shape, int64_t query, int64_t length) {
  const int64_t last_query = smaller(query + kBlock, length) - 1;
  const int64_t first = shape.window > 0 ? larger(0, query - shape.window + 1) : 0;
  return {first / kBlock, last_query / kBlock + 1};
}

/// -infinity where query `query + lane` does not see the key.
inline void hide_unseen(const AttentionShape& shape, int64_t query, int64_t block, float* scores) {
  const int64_t last_key = block * kBlock + kBlock - 1;
  const bool all = last_key <= query && (shape.window == 0 || query + kBlock - 1 - block * kBlock < shape.window);
  if (all) return;
  const VecInt lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  for (int64_t i = 0; i < kBlock; ++i)
    for (int64_t g = 0; g < 2; ++g) {
      // Distance of the query from the key: seen if 0 <= distance < window.
      const VecInt distance = lane + static_cast<int32_t>(query + g * 16 - (block * kBlock + i));
      VecInt seen = distance >= 0;
      if (shape.window > 0) seen = seen & (distance < static_cast<int32_t>(smaller(shape.window, 1 << 30)));
      float* at = scores + i * kBlock + g * 16;
      store(at, select(seen, load(at), splat(-kInfinity)));
    }
}

/// Left factor strips [2·block, 2·block + 2), `steps` tiles each.
inline const bf16* strips_of(const bf16* left, int64_t block, int64_t steps) {
  return left + 2 * block * steps * kTileElements;
}

/// Rows of 32 columns by 32 d's, transposed, times a factor per column, to rows of bf16: c[d][row].
inline void store_transposed(const float* c, int64_t rows, int64_t columns, const Vec (&factor)[2], bf16* to,
                             int64_t stride) {
  for (int64_t g = 0; g < 2; ++g)
    for (int64_t d = 0; d < columns; d += 16) {
      Vec v[16];
      for (int64_t i = 0; i < 16; ++i) v[i] = load(c + (d + i) * kBlock + g * 16) * factor[g];
      transpose(v);
      const int64_t n = smaller(16, columns - d);
      for (int64_t i = 0; i < smaller(16, rows - g * 16); ++i) store_some(to + (g * 16 + i) * stride + d, v[i], n);
    }
}

/// Two strips of d's if there are as many, else one.
inline void times_strips(bool two, const bf16* a, int64_t strip, const bf16* b, int64_t steps, float* c) {
  if (two)
    tile_block<true>(a, strip, b, steps, c);
  else
    tile_block<false>(a, 0, b, steps, c);
}

struct Forward {
  bf16 *keys, *values, *query, *weights;
  float* scores;
  Forward(Pieces& p, int64_t length, int64_t dim)
      : keys(p.take<bf16>(length * dim)),
        values(p.take<bf16>(length * dim)),
        query(p.take<bf16>(kBlock * dim)),
        weights(p.take<bf16>(length * kBlock)),
        scores(p.take<float>(length * kBlock)) {}
};

/// O of one panel of queries of one head; lse where kept.
void forward_panel(const AttentionShape& shape, const TileAttentionTask& t, const Forward& f, int64_t head,
                   int64_t query) {
  const int64_t dim = shape.head_dim, steps = round_up(dim, kTileDepth) / kTileDepth;
  const int64_t rows = smaller(kBlock, t.length - query), key_steps = round_up(t.length, kBlock) / kBlock;
  const KeyBlocks seen = blocks_seen(shape, query, t.length);
  pack_right_transposed(t.q + query * shape.q_stride + head * dim, shape.q_stride, rows, dim, f.query);
  Vec top[2] = {splat(-kInfinity), splat(-kInfinity)};
  for (int64_t b = seen.first; b < seen.last; ++b) {
    float* s = f.scores + b * kBlockElements;
    tile_block<true>(strips_of(f.keys, b, steps), steps * kTileElements, f.query, steps, s);
    hide_unseen(shape, query, b, s);
    for (int64_t i = 0; i < kBlock; ++i)
      for (int64_t g = 0; g < 2; ++g) top[g] = max(load(s + i * kBlock + g * 16), top[g]);
  }
  Vec total[2] = {splat(0.0f), splat(0.0f)};
  const Vec scale = splat(shape.scale), shift[2] = {top[0] * -shape.scale, top[1] * -shape.scale};
  for (int64_t key = seen.first * kBlock; key < seen.last * kBlock; key += 2)
    for (int64_t g = 0; g < 2; ++g) {
      const float* s = f.scores + key * kBlock + g * 16;
      const Vec low = exp(fma(load(s), scale, shift[g])), high = exp(fma(load(s + kBlock), scale, shift[g]));
      total[g] += low + high;
      store_line(f.weights + key * kBlock + g * kBlock, interleave_halves(narrow_two(low, high)));
    }
  const Vec share[2] = {1.0f / total[0], 1.0f / total[1]};
  alignas(64) float c[kBlockElements];
  for (int64_t d = 0; d < dim; d += kBlock) {
    const bool two = d + kTileRows16 < dim;
    const bf16* a = f.values + (d / kTileRows16 * key_steps + seen.first) * kTileElements;
    times_strips(two, a, key_steps * kTileElements, f.weights + seen.first * kBlockElements, seen.last - seen.first, c);
    store_transposed(c, rows, smaller(kBlock, dim - d), share, t.new_out + query * shape.out_stride + head * dim + d,
                     shape.out_stride);
  }
  if (!t.new_lse) return;
  for (int64_t i = 0; i < rows; ++i)
    t.new_lse[(query + i) * shape.heads + head] =
        top[i / 16][i % 16] * shape.scale + __builtin_logf(total[i / 16][i % 16]);
}

void forward(const AttentionShape& shape, const TileAttentionTask& t, void* scratch) {
  const Tiles tiles;
  Pieces pieces = {scratch};
  const int64_t dim = shape.head_dim, group = shape.heads / shape.kv_heads;
  const Forward f(pieces, round_up(t.length, kBlock), round_up(dim, kBlock));
  pack_left(t.k + t.kv_head * dim, shape.kv_stride, round_up(t.length, kBlock), t.length, dim, f.keys);
  pack_left_transposed(t.v + t.kv_head * dim, shape.kv_stride, dim, t.length, f.values);
  for (int64_t h = t.kv_head * group; h < (t.kv_head + 1) * group; ++h)
    for (int64_t query = t.first_query; query < t.length; query += kBlock) forward_panel(shape, t, f, h, query);
}

struct Backward {
  int64_t chunk;  // queries taken at a time
  // Of the keys: as rows, as columns; values as rows. Of a chunk of queries: as columns of a score, and as rows to be
  // summed over.
  bf16 *keys, *key_columns, *values, *query, *dout, *query_rows, *dout_rows;
  bf16 *weights, *slopes, *slope_rows;  // P and dS as left factors over queries, dS as a right one over keys
  float *dkeys, *dvalues, *lse, *delta;
  Backward(Pieces& p, int64_t length, int64_t dim)
      : chunk(larger(kBlock, smaller(smaller(kMostQueries, length), kScoreElements / length / kBlock * kBlock))),
        keys(p.take<bf16>(length * dim)),
        key_columns(p.take<bf16>(length * dim)),
        values(p.take<bf16>(length * dim)),
        query(p.take<bf16>(chunk * dim)),
        dout(p.take<bf16>(chunk * dim)),
        query_rows(p.take<bf16>(chunk * dim)),
        dout_rows(p.take<bf16>(chunk * dim)),
        weights(p.take<bf16>(length * chunk)),
        slopes(p.take<bf16>(length * chunk)),
        slope_rows(p.take<bf16>(length * chunk)),
        dkeys(p.take<float>(length * dim)),
        dvalues(p.take<float>(length * dim)),
        lse(p.take<float>(chunk)),
        delta(p.take<float>(chunk)) {}
};

/// What a chunk of queries [first, first + count) brings; beyond the last lse is infinite, so that P is zero.
void load_chunk(const AttentionShape& shape, const TileAttentionTask& t, const Backward& b, int64_t head, int64_t first,
                int64_t count) {
  const int64_t dim = shape.head_dim, padded = round_up(dim, kBlock), panels = round_up(count, kBlock) / kBlock;
  const bf16 *q = t.q + first * shape.q_stride + head * dim, *dout = t.dout + first * shape.out_stride + head * dim;
  const bf16* out = t.out + first * shape.out_stride + head * dim;
  for (int64_t p = 0; p < panels; ++p) {
    const int64_t rows = smaller(kBlock, count - p * kBlock);
    pack_right_transposed(q + p * kBlock * shape.q_stride, shape.q_stride, rows, dim, b.query + p * kBlock * padded);
    pack_right_transposed(dout + p * kBlock * shape.out_stride, shape.out_stride, rows, dim,
                          b.dout + p * kBlock * padded);
  }
  for (int64_t d = 0; d < dim; d += kBlock) {
    const int64_t columns = smaller(kBlock, dim - d);
    pack_right(q + d, shape.q_stride, columns, count, b.query_rows + d * panels * kBlock);
    pack_right(dout + d, shape.out_stride, columns, count, b.dout_rows + d * panels * kBlock);
  }
  for (int64_t i = 0; i < panels * kBlock; ++i) {
    b.lse[i] = i < count ? t.lse[(first + i) * shape.heads + head] : kInfinity;
    Vec dot = splat(0.0f);
    if (i < count)
      for_each_lanes(dim, [&](int64_t d, int64_t n) {
        dot = fma(load_some(dout + i * shape.out_stride + d, n), load_some(out + i * shape.out_stride + d, n), dot);
      });
    b.delta[i] = sum(dot);
  }
}

/// P and dS of panel p of the chunk against one block of keys.
void score_block(const AttentionShape& shape, const Backward& b, int64_t query, int64_t panels, int64_t p,
                 int64_t block, int64_t keys) {
  const int64_t padded = round_up(shape.head_dim, kBlock), steps = padded / kTileDepth, strip = steps * kTileElements;
  alignas(64) float s[kBlockElements], dp[kBlockElements];
  tile_block<true>(strips_of(b.keys, block, steps), strip, b.query + p * kBlock * padded, steps, s);
  tile_block<true>(strips_of(b.values, block, steps), strip, b.dout + p * kBlock * padded, steps, dp);
  hide_unseen(shape, query, block, s);
  const Vec scale = splat(shape.scale);
  Vec shift[2], delta[2];
  for (int64_t g = 0; g < 2; ++g) {
    shift[g] = splat(0.0f) - load(b.lse + p * kBlock + g * 16);
    delta[g] = load(b.delta + p * kBlock + g * 16);
  }
  // Left factors: strips of 16 keys, a tile per panel. Right factor: panel p over all keys.
  bf16* rows = b.slope_rows + (p * keys + block * kBlock) * kBlock;
  for (int64_t i = 0; i < kBlock; i += 2) {
    const int64_t line = ((block * 2 + i / 16) * panels + p) * kTileElements + i % 16 * kTileDepth;
    Vec low[2], high[2], low_slope[2], high_slope[2];
    for (int64_t g = 0; g < 2; ++g) {
      const int64_t at = i * kBlock + g * 16;
      low[g] = exp(fma(load(s + at), scale, shift[g]));
      high[g] = exp(fma(load(s + at + kBlock), scale, shift[g]));
      low_slope[g] = low[g] * (load(dp + at) - delta[g]);
      high_slope[g] = high[g] * (load(dp + at + kBlock) - delta[g]);
      store_line(rows + i * kBlock + g * kBlock, interleave_halves(narrow_two(low_slope[g], high_slope[g])));
    }
    store_line(b.weights + line, narrow_two(low[0], low[1]));
    store_line(b.weights + line + kTileDepth, narrow_two(high[0], high[1]));
    store_line(b.slopes + line, narrow_two(low_slope[0], low_slope[1]));
    store_line(b.slopes + line + kTileDepth, narrow_two(high_slope[0], high_slope[1]));
  }
}

/// Panels [first, last) of a chunk that see a block of keys.
struct Panels {
  int64_t first, last;
};
inline Panels panels_seeing(const AttentionShape& shape, int64_t chunk, int64_t panels, int64_t block) {
  const int64_t key = block * kBlock;
  const int64_t first = larger(0, key - chunk) / kBlock;
  const int64_t end = shape.window > 0 ? key + kBlock - 1 + shape.window - chunk : panels * kBlock;
  return {first, smaller(panels, round_up(larger(end, 0), kBlock) / kBlock)};
}

/// One chunk of queries of one head: dq of it, and its part of dk and dv, where they are made.
void backward_chunk(const AttentionShape& shape, const TileAttentionTask& t, const Backward& b, int64_t head,
                    int64_t first, int64_t count) {
  const int64_t dim = shape.head_dim, padded = round_up(dim, kBlock), panels = round_up(count, kBlock) / kBlock;
  const int64_t keys = round_up(t.num_keys, kBlock), key_steps = keys / kBlock;
  load_chunk(shape, t, b, head, first, count);
  int64_t first_block = key_steps, last_block = 0;
  for (int64_t p = 0; p < panels; ++p) {
    KeyBlocks seen = blocks_seen(shape, first + p * kBlock, t.length);
    seen.last = smaller(seen.last, key_steps);
    first_block = smaller(first_block, seen.first), last_block = larger(last_block, seen.last);
    for (int64_t block = seen.first; block < seen.last; ++block)
      score_block(shape, b, first + p * kBlock, panels, p, block, keys);
    if (!t.dq) continue;
    alignas(64) float c[kBlockElements];
    for (int64_t d = 0; d < dim; d += kBlock) {  // dQᵀ = Kᵀ·dSᵀ
      const bf16* a = b.key_columns + (d / kTileRows16 * key_steps + seen.first) * kTileElements;
      times_strips(d + kTileRows16 < dim, a, key_steps * kTileElements,
                   b.slope_rows + (p * keys + seen.first * kBlock) * kBlock, seen.last - seen.first, c);
      const Vec factor[2] = {splat(shape.scale), splat(shape.scale)};
      store_transposed(c, smaller(kBlock, count - p * kBlock), smaller(kBlock, dim - d), factor,
                       t.dq + (first + p * kBlock) * shape.q_stride + head * dim + d, shape.q_stride);
    }
  }
  if (!t.dk) return;
  for (int64_t block = first_block; block < last_block; ++block) {
    const Panels seeing = panels_seeing(shape, first, panels, block);
    if (seeing.first >= seeing.last) continue;
    const int64_t skipped = seeing.first * kTileElements, over = seeing.last - seeing.first;
    for (int64_t d = 0; d < dim; d += kBlock) {
      const int64_t right = (d * panels + seeing.first * kBlock) * kBlock, sums = (block * padded + d) * kBlock;
      tile_block<true, true>(strips_of(b.weights, block, panels) + skipped, panels * kTileElements, b.dout_rows + right,
                             over, b.dvalues + sums);
      tile_block<true, true>(strips_of(b.slopes, block, panels) + skipped, panels * kTileElements, b.query_rows + right,
                             over, b.dkeys + sums);
    }
  }
}

/// Sums in blocks of 32 keys × 32 d's, times a factor, to rows.
inline void store_sums(const float* sums, int64_t length, int64_t dim, float factor, bf16* to, int64_t stride) {
  const int64_t padded = round_up(dim, kBlock);
  for (int64_t j = 0; j < length; ++j)
    for (int64_t d = 0; d < dim; d += kLanes) {
      const float* from = sums + (j / kBlock * padded + d / kBlock * kBlock) * kBlock + j % kBlock * kBlock;
      store_some(to + j * stride + d, load(from + d % kBlock) * factor, smaller(kLanes, dim - d));
    }
}

void backward(const AttentionShape& shape, const TileAttentionTask& t, void* scratch) {
  const Tiles tiles;
  Pieces pieces = {scratch};
  const int64_t dim = shape.head_dim, padded = round_up(dim, kBlock), keys = round_up(t.num_keys, kBlock);
  const int64_t group = shape.heads / shape.kv_heads, offset = t.kv_head * dim;
  const Backward b(pieces, keys, padded);
  pack_left(t.k + offset, shape.kv_stride, keys, t.num_keys, dim, b.keys);
  pack_left(t.v + offset, shape.kv_stride, keys, t.num_keys, dim, b.values);
  if (t.dq) pack_left_transposed(t.k + offset, shape.kv_stride, dim, t.num_keys, b.key_columns);
  for (int64_t i = 0; t.dk && i < keys * padded; i += kLanes) {
    store(b.dkeys + i, splat(0.0f));
    store(b.dvalues + i, splat(0.0f));
  }
  for (int64_t h = t.kv_head * group; h < (t.kv_head + 1) * group; ++h)
    for (int64_t first = t.first_query; first < t.length; first += b.chunk)
      backward_chunk(shape, t, b, h, first, smaller(b.chunk, t.length - first));
  if (!t.dk) return;
  store_sums(b.dkeys, t.num_keys, dim, shape.scale, t.dk + offset, shape.kv_stride);
  store_sums(b.dvalues, t.num_keys, dim, 1.0f, t.dv + offset, shape.kv_stride);
}

int64_t scratch_bytes(const AttentionShape& shape, int64_t num_keys, bool is_backward) {
  Pieces pieces = {nullptr};
  const int64_t keys = round_up(num_keys, kBlock), dim = round_up(shape.head_dim, kBlock);
  if (is_backward)
    static_cast<void>(Backward(pieces, keys, dim));
  else
    static_cast<void>(Forward(pieces, keys, dim));
  return pieces.taken;
}

}  // namespace

const TileAttentionTable tile_attention_table = {
    .present = true, .scratch_bytes = scratch_bytes, .forward = forward, .backward = backward};

#else

}  // namespace

const TileAttentionTable tile_attention_table = {};

#endif

}  // namespace tern::TERN_ISA_NAMESPACE
