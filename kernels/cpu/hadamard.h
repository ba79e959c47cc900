#pragma once
// An orthogonal rotation that spreads each number of a head over all, so that none is far larger: 4 bits and one scale
// then lose less. Attention is unchanged: queries and keys get the same rotation, the values' result is rotated back.

#include <cstdint>

namespace tern {

/// The largest power of two that divides n: how many neighbours are mixed with each other. For odd n it is 1: none are.
constexpr int64_t hadamard_block(int64_t n) { return n & -n; }

/// In place, every run of b = hadamard_block(width) numbers of each head: x ← H·D·x/√b, with H the Hadamard matrix in Sylvester's order
/// and D signs that are fixed by the place alone (hadamard_sign). inverse: x ← D·H·x/√b, which is the transpose.
/// Shapes  `rows` rows, `stride` numbers from one to the next, of `heads` heads of `width` side by side. T is float, bf16 or double.
/// Order   log2(b) rounds of sums and differences of two, then one product, in f32 (f64 of double); bf16 is rounded once at the end.
///         The same bits under every instruction set, for any number of threads and of rows.
/// Source  the rotation of QuaRot (Ashkboos et al. 2024, arXiv:2404.00456; recalled) for its cache, applied to values too.
template <class T>
void hadamard_turn(T* x, int64_t rows, int64_t stride, int64_t heads, int64_t width, bool inverse);

/// -1 or 1, of place i within a block.
float hadamard_sign(int64_t i);

}  // namespace tern
