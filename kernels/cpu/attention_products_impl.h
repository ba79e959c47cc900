#pragma once
// The two products of an attention tile, and the buffers that they keep in the cache, for attention_isa.cpp: the scores of a query tile
// against a block of keys, and the weighted sum of the block's values. VectorProducts uses vectors in f32, TileProducts the tile unit.
//
// In both, an element is one chain over the summed dimension, in one order that does not depend on other elements. A missing row of keys or
// values (null, or beyond `count`) counts as zeros. Behind the block's last key, `scores` hold anything.

#include "kernels/cpu/attention_table.h"
#include "kernels/cpu/small_gemm_impl.h"
#include "kernels/cpu/tiles_impl.h"

namespace tern::TERN_ISA_NAMESPACE {
namespace {

struct Scratch {
  float* next;
  Rows rows(int64_t count, int64_t stride) {
    float* begin = next;
    next += (count * stride + kMaxLanes - 1) / kMaxLanes * kMaxLanes;
    return {begin, stride};
  }
};
inline int64_t whole_lanes(int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

/// The rows of keys, then of values, that the next block will load. `fetch` prefetches a few of them at a time, as a core can have only some
/// sixteen memory requests outstanding.
template <class T>
struct NextBlock {
  const T* rows[2 * kKeyBlock];
  int64_t count, dim, fetched;  // count, fetched: rows; dim: elements of a row
  void fetch(int64_t num) {
    for (const int64_t end = fetched + num < count ? fetched + num : count; fetched < end; ++fetched)
      for (int64_t d = 0; d < dim; d += 64 / static_cast<int64_t>(sizeof(T)))
        __builtin_prefetch(rows[fetched] + d, 0, 2);
  }
};

template <class T>
struct VectorProducts {
  VectorProducts(Scratch& scratch, int64_t rows, int64_t head_dim)
      : num_rows(rows),
        dim(head_dim),
        query(scratch.rows(rows, padded_dim(head_dim))),
        keys(scratch.rows(head_dim, kKeyBlock)),
        values(scratch.rows(kKeyBlock, padded_dim(head_dim))),
        scores(scratch.rows(rows, kKeyBlock)),
        sums(scratch.rows(rows, padded_dim(head_dim))) {}

  void load_query(int64_t r, const T* row) { load_rows(&row, 1, dim, {query.data + r * query.stride, query.stride}); }
  template <class E>
  void load_block(const T* const* key_rows, const T* const* value_rows, int64_t keys_in_block, NextBlock<E>& next) {
    count = keys_in_block;
    load_transposed(key_rows, count, dim, keys);
    next.fetch(kKeyBlock / 2);
    load_rows(value_rows, count, dim, values);
    next.fetch(kKeyBlock / 2);
  }
  void make_scores() {
    small_gemm(num_rows, whole_lanes(count), dim, {query.data, query.stride, 1}, keys, scores, false);
  }
  void add_values() { small_gemm(num_rows, sums.stride, count, {scores.data, kKeyBlock, 1}, values, sums, true); }

  int64_t num_rows, dim, count = 0;
  Rows query, keys, values;
  Rows scores, sums;  // (rows, kKeyBlock), (rows, padded dim)
};

#if defined(__AMX_BF16__)

/// Scores are sums of exact products of bf16. Each softmax weight is split into two bf16, the rounded weight and the remainder: so a weighted
/// sum keeps 16 bits of every weight, at the cost of a second product.
struct TileProducts {
  TileProducts(Scratch& scratch, int64_t rows, int64_t head_dim)
      : num_rows(rows),
        strips(round_up(rows, kTileRows16) / kTileRows16),
        dim(head_dim),
        steps(round_up(head_dim, kTileDepth) / kTileDepth),
        query(halves(scratch, strips * kTileRows16 * steps * kTileDepth)),
        keys(halves(scratch, kKeyBlock * steps * kTileDepth)),
        values(halves(scratch, kKeyBlock * round_up(head_dim, kTilePanel))),
        weights(halves(scratch, strips * kStripWeights)),
        scores(scratch.rows(round_up(rows, 2 * kTileRows16), kKeyBlock)),
        sums(scratch.rows(round_up(rows, 2 * kTileRows16), round_up(head_dim, kTilePanel))) {
    for (int64_t r = rows; r < strips * kTileRows16; ++r) {
      for (int64_t s = 0; s < steps; ++s) store_line(query_line(r, s), VecUint{});
      for (int64_t s = 0; s < 2 * kWeightSteps; ++s) store_line(weight_line(r, s), VecUint{});
    }
  }

  void load_query(int64_t r, const bf16* row) {
    for (int64_t s = 0; s < steps; ++s)
      store_line(query_line(r, s), load_dwords(row + s * kTileDepth, dim - s * kTileDepth));
  }
  template <class E>
  void load_block(const bf16* const* key_rows, const bf16* const* value_rows, int64_t count, NextBlock<E>& next) {
    panels = round_up(count, kTilePanel) / kTilePanel;
    const auto dwords = [&](const bf16* const* rows, int64_t key, int64_t column) {
      return key < count && rows[key] ? load_dwords(rows[key] + column, dim - column) : VecUint{};
    };
    for (int64_t panel = 0; panel < panels; ++panel)
      for (int64_t s = 0; s < steps; ++s)
        for (int64_t half = 0; half < 2; ++half) {
          Vec v[16];
          for (int64_t r = 0; r < 16; ++r)
            v[r] = (Vec)dwords(key_rows, panel * kTilePanel + half * 16 + r, s * kTileDepth);
          transpose(v);
          next.fetch(kKeyBlock / (4 * steps));
          bf16* out = keys + (panel * steps + s) * 2 * kTileElements + half * kTilePanel;
          for (int64_t p = 0; p < 16; ++p) store_line(out + p * 2 * kTilePanel, (VecUint)v[p]);
        }
    for (int64_t column = 0; column < sums.stride; column += kTilePanel) {
      bf16* out = values + column * kKeyBlock;
      for (int64_t key = 0; key < panels * kTilePanel; key += 2, out += 2 * kTilePanel)
        store_row_pair(pair_rows(dwords(value_rows, key, column), dwords(value_rows, key + 1, column)), out);
    }
  }
  void make_scores() {
    for (int64_t panel = 0; panel < panels; ++panel)
      multiply<false>(query, steps, steps, keys + panel * steps * 2 * kTileElements, scores, panel * kTilePanel);
  }
  void add_values() {
    for (int64_t r = 0; r < num_rows; ++r)
      for (int64_t s = 0; s < panels; ++s) {
        const float* p = scores.data + r * kKeyBlock + s * kTileDepth;
        const Vec low = load(p), high = load(p + kLanes);
        bf16* line = weight_line(r, s);
        store_line(line, narrow_two(low, high));
        store_line(weight_line(r, kWeightSteps + s), narrow_two(low - load(line), high - load(line + kLanes)));
      }
    for (int64_t column = 0; column < sums.stride; column += kTilePanel)
      for (int64_t part = 0; part < 2; ++part)
        multiply<true>(weights + part * kWeightSteps * kTileElements, panels, 2 * kWeightSteps,
                       values + column * kKeyBlock, sums, column);
  }

  static constexpr int64_t kWeightSteps = kKeyBlock / kTileDepth;  // of rounded weights; the remainders have as many
  static constexpr int64_t kStripWeights = 2 * kWeightSteps * kTileElements;
  static bf16* halves(Scratch& scratch, int64_t count) {
    return reinterpret_cast<bf16*>(scratch.rows(1, count / 2).data);
  }
  bf16* query_line(int64_t r, int64_t s) {
    return query + (r / kTileRows16 * steps + s) * kTileElements + r % kTileRows16 * kTileDepth;
  }
  bf16* weight_line(int64_t r, int64_t s) {
    return weights + r / kTileRows16 * kStripWeights + s * kTileElements + r % kTileRows16 * kTileDepth;
  }
  /// Columns [column, column + 32) of c = (kAdd: +=) the strips of `a`, which are `stride` tiles apart, times the panel b.
  template <bool kAdd>
  void multiply(const bf16* a, int64_t depth, int64_t stride, const bf16* b, Rows c, int64_t column) {
    const int64_t strip = stride * kTileElements;
    for (int64_t s = 0; s < strips; s += 2, a += 2 * strip) {
      float* to = c.data + s * kTileRows16 * c.stride + column;
      if (s + 1 < strips)
        tile_block<true, kAdd>(a, strip, b, depth, to, c.stride);
      else
        tile_block<false, kAdd>(a, 0, b, depth, to, c.stride);
    }
  }

  const Tiles tiles;
  int64_t num_rows, strips, dim, steps, panels = 0;
  bf16 *query, *keys, *values, *weights;
  Rows scores, sums;  // (rows rounded up to 32, kKeyBlock), (rows rounded up to 32, dim rounded up to 32)
};

#endif

}  // namespace
}  // namespace tern::TERN_ISA_NAMESPACE
