#pragma once
// Attention sinks (gpt_oss): each head has a learned score without a key or a value, which takes a share of each softmax. So the weights of
// the keys sum to less than one. apply_sinks comes after attention over the keys alone, and changes the out and lse of that attention.
// sinks_backward comes beside attention_backward; both are given the changed out and lse.
// With s the sink of a head and Z = Σ_j e^{z_j} = e^lse:  o' = Σ_j e^{z_j} v_j / (Z + e^s) = o·σ(lse − s),  lse' = log(Z + e^s).

#include <cstdint>

namespace tern {

/// In place: out *= σ(lse − s), lse = log(e^lse + e^s). T float, bf16 (with S float) or double (with S double).
/// Shapes  out (rows, heads·head_dim) with out_stride numbers from one row to the next; lse (rows, heads); sinks (heads).
/// A sink of −∞ changes nothing; rows do not depend on each other. Computed in doubles, rounded once.
/// Source  gpt-oss (OpenAI 2025; transformers' GptOssAttention, recalled): the sink is one more column of the scores, dropped after
///         softmax.
template <class T, class S>
void apply_sinks(const S* sinks, int64_t rows, int64_t heads, int64_t head_dim, int64_t out_stride, T* out, S* lse);

/// dsinks (heads) += −Σ_rows e^{s − lse'}·D,  D = Σ_d dout·o'. o' and lse' are out and lse as apply_sinks left them. Rows ascending, in doubles.
/// dq, dk and dv are those of attention_backward (kernels/cpu/attention.h) with the same out and lse:
///   P_j = e^{z_j − lse'} and P_s = e^{s − lse'} are one softmax, so dz_j = P_j(dout·v_j − D) and ds = P_s(0 − D).
template <class T, class S>
void sinks_backward(const S* sinks, int64_t rows, int64_t heads, int64_t head_dim, int64_t out_stride, const T* out,
                    const T* dout, const S* lse, S* dsinks);

}  // namespace tern
