#pragma once
// Rotary position embedding on the half-split layout of Hugging Face's Llama: dimension i pairs with i + rotary_dim/2.
// Twin: kernels/ref/rope_ref.h. The table is made in doubles by model/rope_table.h.

#include <cstdint>
#include <span>

namespace tern {

/// Sizes of rope.
struct RopeShape {
  int64_t rows, row_stride, heads, head_dim, rotary_dim;
};
/// Rotates `heads` heads of every row in place by its position. `inverse` rotates the other way, as the backward pass does.
/// Shapes  x: rows of `row_stride` elements, the heads stand first in each row,
///         `head_dim` apart; the first `rotary_dim` elements of a head are rotated.
///         cos, sin (num_positions, rotary_dim/2). positions (rows), each <
///         num_positions.
/// Source  Su et al. 2021, arXiv:2104.09864; pairing as in transformers' rotate_half.
template <class T>
void rope(const RopeShape&, std::span<const int32_t> positions, std::span<const float> cos, std::span<const float> sin,
          bool inverse, T* x);

}  // namespace tern
