#pragma once
// Attention in a context group whose ranks pass keys and values round a ring. A block is the keys and values of one
// rank's rows. A rank keeps its queries and receives each other rank's block once, from the previous rank. In the
// backward pass a block's gradients follow it one hop later; after one hop per rank they are back on the block's
// own rank. Source: Ring Attention, Liu et al. 2023, arXiv:2310.01889. Which rank has which rows: model/ring_rows.h.

#include <string>

#include "kernels/cpu/attention.h"
#include "model/context_ranks.h"
#include "model/rows.h"

namespace tern {

/// Why a unit cannot run in a ring, or "": "attends to later tokens".
std::string why_not_in_ring(const AttentionSpec&);

/// A row of qkv (T, q_stride): queries, keys, values. A row of a block (T, kv_stride = 2·kv_heads·head_dim): keys, values.
/// Bytes   sent and received: ring_bytes (spec/context_cost.h). Workspace: two blocks; in bf16 also `context` in f32.
/// Order   first the keys of this rank, then the keys of rank − 1, rank − 2, … round the ring.
/// Errors  the transport's; TERN_CHECK: 2·ranks does not divide the rows of all ranks together.
void ring_forward(const AttentionShape&, const Rows&, const Tensor& qkv, const Tensor& context, const Tensor& lse,
                  const Compute&);
/// dqkv is overwritten. Workspace: two blocks; in the type of sums (AttentionSum) also two blocks' gradients and dq.
/// Order   a key's gradients sum over the queries of the key's rank first, then of rank + 1, rank + 2, … round the ring.
void ring_backward(const AttentionShape&, const Rows&, const Tensor& qkv, const Tensor& context, const Tensor& dcontext,
                   const Tensor& lse, const Tensor& dqkv, const Compute&);

}  // namespace tern
