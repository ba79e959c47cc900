#pragma once
// Copies of pieces of rows. Attention takes heads of one length side by side; the matrices of latent attention hold them in another order, and
// these functions convert between the two. Plain loops over threads, the same for every instruction set; one thread handles a row.
// kernels/ref/heads_ref.h is the twin.

#include <cstdint>
#include <span>

namespace tern {

/// Where the H pieces of each row lie: piece h of row r begins at element r·stride + at + h·step.
struct HeadPieces {
  int64_t stride, at, step = 0;  // step 0: every h is the same piece
};
/// T rows of H pieces of `width` elements.
struct HeadShape {
  int64_t rows, heads, width;
};

// Shapes  the pieces of a row lie within it; from and to are not the same memory. T float or bf16.
// Errors  TERN_CHECK: a piece beyond a span's end.

/// Copies each piece of `from` to the same piece of `to`. The first HeadPieces is that of `from`, the second that of `to`.
template <class T>
void copy_heads(HeadShape, std::span<const T> from, HeadPieces, std::span<T> to, HeadPieces);
/// The pieces become zero.
template <class T>
void zero_heads(HeadShape, std::span<T> to, HeadPieces);
/// `to` has one piece: the sum over h of the pieces of `from`.
/// Order   h ascending, summed in float, rounded once.
template <class T>
void sum_heads(HeadShape, std::span<const T> from, HeadPieces, std::span<T> to, HeadPieces);

}  // namespace tern
