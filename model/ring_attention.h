#pragma once
// Attention in a context group whose ranks pass keys and values round a ring: each rank keeps its rows' queries, and the block of each
// rank's keys and values comes by once, from the rank before. Backward the gradients of a block's keys and values travel one hop behind
// it, and come home after as many hops as there are ranks.
// Source  Ring Attention, Liu et al. 2023, arXiv:2310.01889; rows as in model/ring_rows.h. Stays in model/.

#include <string>

#include "kernels/cpu/attention.h"
#include "model/context_ranks.h"
#include "model/rows.h"

namespace tern {

/// Why a unit cannot run in a ring, or "": "attends to later tokens".
std::string why_not_in_ring(const AttentionSpec&);

/// Keys and values of this rank's rows lie in qkv (T, q_stride) behind the queries; the shape's kv_stride is a block's, 2·kv_heads·head_dim.
/// Bytes   sent and received: ring_bytes (spec/context_cost.h). Workspace: two blocks, and in bf16 the rows of context in f32.
/// Order   own keys first, then those of the ranks before this one, nearest first.
/// Errors  the transport's; TERN_CHECK: rows that are not rows_in_ring.
void ring_forward(const AttentionShape&, const Rows&, const Tensor& qkv, const Tensor& context, const Tensor& lse,
                  const Compute&);
/// dqkv is overwritten. Workspace: two blocks, and in the type of sums two blocks' gradients and the rows of dq.
/// Order   a key's gradients are summed over its own rank's queries first, then over those of the ranks behind, nearest first.
void ring_backward(const AttentionShape&, const Rows&, const Tensor& qkv, const Tensor& context, const Tensor& dcontext,
                   const Tensor& lse, const Tensor& dqkv, const Compute&);

}  // namespace tern
