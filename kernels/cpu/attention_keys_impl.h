#pragma once
// The keys and values of attention's tiles, for attention_isa.cpp: which keys a tile sees, where their rows lie (plain or in pages), how a
// block of them is loaded, and the prefetch of the next block. Only for *_isa.cpp files.

#include "kernels/cpu/attention_products_impl.h"
#include "kernels/cpu/kv_rows_impl.h"

namespace tern::TERN_ISA_NAMESPACE {
namespace {

inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

// The first position that a query at `position` sees. The last one is its own position, or without `causal` the last of the sequence.
inline int64_t first_seen(const AttentionShape& shape, int64_t position) {
  return shape.window > 0 ? larger(0, position - shape.window + 1) : 0;
}

/// Keys and values in memory: numbers (E is T), or bytes of rows in another type (E is uint8_t).
template <class E>
struct RowsFrom {
  const E *keys, *values;
};
template <class T, class E>
inline RowsFrom<E> rows_from(const AttentionSequence<T>& s) {
  if constexpr (sizeof(E) == 1)
    return {s.kept.keys, s.kept.values};
  else
    return {s.keys, s.values};
}
/// Points keys[i] and values[i], for i < count, at the row of key first + i of a head and at that of its value.
template <class T, class E>
inline void point_at_pages(const AttentionShape& shape, const AttentionSequence<T>& s, RowsFrom<E> from, int64_t head,
                           int64_t first, int64_t count, const E** keys, const E** values) {
  if (!s.pages) {
    int64_t at = first * shape.kv_stride + head * shape.head_dim;
    for (int64_t i = 0; i < count; ++i, at += shape.kv_stride) keys[i] = from.keys + at, values[i] = from.values + at;
    return;
  }
  const PageLayout& in = s.layout;
  int64_t page = first / in.page_tokens, row = first % in.page_tokens;
  for (int64_t i = 0; i < count; ++page, row = 0) {
    int64_t at = s.pages[page] * in.page_stride + head * in.head_stride + row * in.key_stride;
    for (; i < count && row < in.page_tokens; ++i, ++row, at += in.key_stride)
      keys[i] = from.keys + at, values[i] = from.values + at;
  }
}
/// Loads a block of keys and values into the products. Rows of another type are decoded into scratch first.
template <class T, class E>
struct LoadedBlock {
  LoadedBlock(Scratch& scratch, int64_t head_dim) : dim(head_dim), stride(padded_dim(head_dim)) {
    constexpr int64_t kFloats = 2 * kKeyBlock * sizeof(T) / sizeof(float);
    if constexpr (sizeof(E) == 1) decoded = reinterpret_cast<T*>(scratch.rows(kFloats, stride).data);
  }
  template <class Products>
  void load(Products& products, KvType type, const E* const* keys, const E* const* values, int64_t count,
            NextBlock<E>& next) {
    if constexpr (sizeof(E) == 1) {
      const T *key_rows[kKeyBlock], *value_rows[kKeyBlock];
      decode_kv_rows(type, keys, count, dim, stride, decoded, key_rows);
      decode_kv_rows(type, values, count, dim, stride, decoded + kKeyBlock * stride, value_rows);
      products.load_block(key_rows, value_rows, count, next);
    } else {
      products.load_block(keys, values, count, next);
    }
  }
  int64_t dim, stride;
  T* decoded = nullptr;
};

template <class T>
inline int64_t queries_ahead(const AttentionSequence<T>& s) {
  return s.num_keys + s.ahead - s.query_count;
}
/// The keys that a tile of queries sees: [first, end).
struct SeenKeys {
  int64_t first, end;
};
template <class T>
inline SeenKeys keys_of(const AttentionShape& shape, const AttentionSequence<T>& s, AttentionTile tile) {
  const int64_t begin = queries_ahead(s) + tile.first;
  return {first_seen(shape, begin), shape.causal ? smaller(begin + tile.count, s.num_keys) : s.num_keys};
}
/// Points `next` at the keys and values of the block at `base`, or of the first block that the tile sees, if that is later.
template <class T, class E>
inline void point_at_next(const AttentionShape& shape, const AttentionSequence<T>& s, AttentionTile tile, int64_t base,
                          NextBlock<E>& next) {
  const SeenKeys keys = keys_of(shape, s, tile);
  const int64_t first = larger(base, keys.first), end = smaller(first / kKeyBlock * kKeyBlock + kKeyBlock, keys.end);
  const int64_t count = larger(0, end - first);
  next.count = 2 * count, next.dim = sizeof(E) == 1 ? s.layout.key_stride : shape.head_dim;
  point_at_pages(shape, s, rows_from<T, E>(s), tile.kv_head, first, count, next.rows, next.rows + count);
}

}  // namespace
}  // namespace tern::TERN_ISA_NAMESPACE
