#pragma once
// Products whose result is symmetric: half of it is computed, the other half is its mirror image. Twins: multiply_tn and multiply_nn,
// which give the same bits, as both halves are chains over the same products in the same order.

#include <cstdint>
#include <span>

namespace tern {

/// a (k, k) = xᵀ · x, with x (m, k). Work  m·k² FLOPs, plus the unused halves of the blocks that the diagonal cuts.
void gram(std::span<const float> x, int64_t m, int64_t k, std::span<float> a);
/// y (n, n) = a · a. `a` must be symmetric to the bit. Work  n³ FLOPs, plus the unused halves of the blocks that the diagonal cuts.
void square_symmetric(std::span<const float> a, int64_t n, std::span<float> y);

}  // namespace tern
