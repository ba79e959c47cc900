#pragma once
// Causal attention over keys that come block by block, as in a ring of ranks: what a block's keys give is folded into what earlier
// blocks gave, in any order of blocks. Sums in f32 (f64 if f64). In attention.cpp. Twin: kernels/ref/attention_onto_ref.h.
// Source: Liu et al. 2023, arXiv:2310.01889 (Ring Attention); the running softmax of Dao et al. 2022, arXiv:2205.14135.

#include <cstdint>
#include <span>

#include "kernels/cpu/attention.h"

namespace tern {

/// Queries and keys of one sequence: rows [query_row, query_row + num_queries) of q, out, dout, lse and dq, and rows
/// [key_row, key_row + num_keys) of k, v, dk and dv.
struct AttentionPiece {
  int64_t query_row, num_queries, key_row, num_keys;
  int64_t distance;  // positions from the first key to the first query, 0 or more
};

/// What the backward reads: out and lse of all keys, dout (rows, heads·head_dim).
template <class T>
struct AttentionInputs {
  const T *q, *k, *v, *out, *dout;
  const AttentionSum<T>* lse;
};

/// out (rows, heads·head_dim) and lse (rows, heads) over the keys so far become those over the pieces' keys too:
///   with m the larger of lse and the largest score z_j:  s = e^(lse − m) + Σ_j e^(z_j − m),
///   out = (e^(lse − m)·out + Σ_j e^(z_j − m) v_j) / s,  lse = m + log s.
/// Where no key was seen yet out is 0 and lse −∞; a query that sees none of these keys stays as it is.
/// Shapes  strides as in the shape; k and v, and dk and dv, share kv_stride; dq has the rows of out.
/// Order   as attention_forward and attention_backward, keys counted from the piece's first; pieces of one call have no query and no key
///         in common.
/// Errors  TERN_CHECK: attention that is not causal, slopes in bf16, whose biases depend on positions, not on distances alone.
template <class T>
void attention_onto(const AttentionShape&, std::span<const AttentionPiece>, const T* q, const T* k, const T* v,
                    float* out, std::span<float> lse);
/// dq += what the pieces' keys give; dk, dv += what their queries give.
template <class T>
void attention_queries_onto(const AttentionShape&, std::span<const AttentionPiece>, const AttentionInputs<T>&,
                            float* dq);
template <class T>
void attention_keys_onto(const AttentionShape&, std::span<const AttentionPiece>, const AttentionInputs<T>&, float* dk,
                         float* dv);

}  // namespace tern
