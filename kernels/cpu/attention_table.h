#pragma once
// The attention kernels of one instruction set. A call computes, on one thread, one tile of queries, one block of keys, or the whole
// backward of one kv head. attention.cpp deals these to threads.

#include <cstdint>

#include "base/dtype.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/tables.h"

namespace tern {

constexpr int64_t kKeyBlock = 64;    // keys of a block, counted from position 0; another value gives other bits
constexpr int64_t kTileRows = 64;    // rows of a query tile: positions times the query heads of one kv head
constexpr int64_t kHeadRows = 2048;  // the most rows (positions times query heads) that a backward_head call takes
constexpr int64_t kMaxLanes = 16;    // head_dim is padded to a multiple of this in scratch

static constexpr int64_t padded_dim(int64_t head_dim) { return (head_dim + kMaxLanes - 1) / kMaxLanes * kMaxLanes; }

/// What one task works on: positions [first, first + count) of a sequence under one kv head.
struct AttentionTile {
  int64_t kv_head, first, count;
};

/// The tile that this thread probably works on next; its first keys and values are prefetched meanwhile. sequence: null if there is none.
template <class T>
struct AttentionNext {
  const AttentionSequence<T>* sequence = nullptr;
  AttentionTile tile = {};
};

/// The tensors of one sequence's backward. q, out, dout, lse and dq point at its first query's row; k, v, dk and dv at its first key's row.
template <class T, class G = T>
struct AttentionGradients {
  const T *q, *k, *v, *out, *dout;
  const float* lse;
  G *dq, *dk, *dv;
  int64_t dq_stride, num_queries, num_keys;
  int64_t ahead = 0;  // positions from the first key to the first query
  bool adds = false;  // dq, dk, dv are added to
};

template <class T>
struct AttentionKernels {
  void (*forward)(const AttentionShape&, const AttentionSequence<T>&, AttentionTile, const AttentionNext<T>&,
                  const T* q, T* out, float* lse, float* scratch);
  void (*backward_queries)(const AttentionShape&, const AttentionGradients<T>&, AttentionTile queries, float* scratch);
  void (*backward_keys)(const AttentionShape&, const AttentionGradients<T>&, AttentionTile keys,
                        float* scratch);  // `keys`: one block of keys
  void (*backward_head)(const AttentionShape&, const AttentionGradients<T>&, int64_t kv_head, float* scratch);
  // The same for attention_onto.h, with gradients in f32.
  void (*queries_onto)(const AttentionShape&, const AttentionGradients<T, float>&, AttentionTile queries,
                       float* scratch);
  void (*keys_onto)(const AttentionShape&, const AttentionGradients<T, float>&, AttentionTile keys, float* scratch);
};
struct AttentionTable {
  AttentionKernels<float> f32;
  AttentionKernels<bf16> bfloat16;
};
TERN_DECLARE_TABLES(AttentionTable, attention_table)

}  // namespace tern
