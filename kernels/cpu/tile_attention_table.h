#pragma once
// Training's attention of one instruction set. A task is one kv head of one sequence, or a part of it, on one thread;
// tile_attention.cpp deals tasks to threads.

#include <cstdint>

#include "base/dtype.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/tables.h"

namespace tern {

/// Pointers at the first row of the sequence; lse (length, heads). A task may be for a part of a sequence. As only distances between
/// positions matter, the part counts as a whole sequence: all fields count from the part's first row. If the task is for the queries
/// [first_query, length), the part begins at the first key that these queries see, or less than a block earlier, and ends with the last
/// query. If it is for the keys [0, num_keys), the part ends with the last query that sees one of these keys, or less than a block later.
struct TileAttentionTask {
  int64_t kv_head, length;
  int64_t first_query;  // outputs and dq are of queries [first_query, length); a multiple of kTileAttentionBlock
  int64_t num_keys;     // dk and dv are of keys [0, num_keys); without dk and dv, num_keys is the length
  const bf16 *q, *k, *v;
  bf16* new_out;  // results of the forward
  float* new_lse;
  const bf16 *out, *dout;  // inputs of the backward
  const float* lse;
  bf16 *dq, *dk, *dv;  // either dq, or dk and dv, may be null: not computed
};
constexpr int64_t kTileAttentionBlock = 32;  // queries of a panel, keys of a block

struct TileAttentionTable {
  bool present;
  /// Bytes of a task's scratch. More keys may need fewer bytes.
  int64_t (*scratch_bytes)(const AttentionShape&, int64_t num_keys, bool backward);
  void (*forward)(const AttentionShape&, const TileAttentionTask&, void* scratch);
  void (*backward)(const AttentionShape&, const TileAttentionTask&, void* scratch);
};
TERN_DECLARE_TABLES(TileAttentionTable, tile_attention_table)

}  // namespace tern
