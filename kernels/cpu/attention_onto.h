#pragma once
// Causal attention over keys that come block by block, as in a ring of ranks: the result over one block's keys is folded into the result over
// the earlier blocks, and blocks may come in any order. Sums in f32 (f64 for f64). In attention.cpp. Twin: kernels/ref/attention_onto_ref.h.
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

/// What the backward reads: out and lse over all keys, and dout (rows, heads·head_dim).
template <class T>
struct AttentionInputs {
  const T *q, *k, *v, *out, *dout;
  const AttentionSum<T>* lse;
};

/// out (rows, heads·head_dim) and lse (rows, heads) are results over the keys so far; they become results over those and the pieces' keys:
///   with m the larger of lse and the largest score z_j:  s = e^(lse − m) + Σ_j e^(z_j − m),
///   out = (e^(lse − m)·out + Σ_j e^(z_j − m) v_j) / s,  lse = m + log s.
/// Before a query has seen any key, its out is 0 and its lse −∞. Results of a query that sees none of the pieces' keys stay as they are.
/// Shapes  strides as in the shape; k and v, and dk and dv, share kv_stride; dq has the rows of out.
/// Order   as attention_forward and attention_backward, with blocks of keys counted from a piece's first key. Pieces of one call share no query
///         and no key.
/// Errors  TERN_CHECK: attention that is not causal; slopes in bf16, as their biases depend on positions, not on distances alone.
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
