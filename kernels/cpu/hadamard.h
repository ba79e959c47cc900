#pragma once
// An orthogonal rotation that spreads each number of a head over the whole head. Then no number is far larger than the others, and 4 bits with
// one scale lose less. Attention is unchanged: queries and keys get the same rotation; values are rotated, and the output is rotated back.

#include <cstdint>

namespace tern {

/// The largest power of two that divides n: how many consecutive numbers are mixed with each other. For odd n it is 1: nothing is mixed.
constexpr int64_t hadamard_block(int64_t n) { return n & -n; }

/// Rotates in place each run of b = hadamard_block(width) numbers of every head: x ← H·D·x/√b. H is the Hadamard matrix in Sylvester's
/// order, D the diagonal matrix of hadamard_sign(i). If `inverse`: x ← D·H·x/√b, the transpose.
/// Shapes  `rows` rows, `stride` numbers apart; a row has `heads` heads of `width` numbers side by side. T is float, bf16 or double.
/// Order   log2(b) rounds of sums and differences of two, then one product, in f32 (double: in f64); bf16 is rounded once at the end.
///         The same bits under every instruction set, for any number of threads and of rows.
/// Source  the rotation that QuaRot (Ashkboos et al. 2024, arXiv:2404.00456; recalled) uses for its cache, here applied to values too.
template <class T>
void hadamard_turn(T* x, int64_t rows, int64_t stride, int64_t heads, int64_t width, bool inverse);

/// The sign, -1 or 1, of number i of a run.
float hadamard_sign(int64_t i);

}  // namespace tern
