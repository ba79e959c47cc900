#pragma once
// Attention on tiles of one instruction set: one key head of one sequence on one thread. tile_attention.cpp deals them.

#include <cstdint>

#include "base/dtype.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/tables.h"

namespace tern {

/// Pointers at the first row of the sequence; lse (length, heads).
struct TileAttentionTask {
  int64_t kv_head, length;
  const bf16 *q, *k, *v;
  bf16* new_out;  // forward: what it makes
  float* new_lse;
  const bf16 *out, *dout;  // backward: what it starts from
  const float* lse;
  bf16 *dq, *dk, *dv;
};

struct TileAttentionTable {
  bool present;
  int64_t (*scratch_bytes)(const AttentionShape&, int64_t length, bool backward);
  void (*forward)(const AttentionShape&, const TileAttentionTask&, void* scratch);
  void (*backward)(const AttentionShape&, const TileAttentionTask&, void* scratch);
};
TERN_DECLARE_TABLES(TileAttentionTable, tile_attention_table)

}  // namespace tern
