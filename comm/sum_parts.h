#pragma once
// The arithmetic of Comm's sums: adds what the ranks sent.

#include <cstddef>
#include <span>

#include "base/dtype.h"

namespace tern {

/// leaves[own] becomes the sum of all leaves in the tree of spec/sum_order.h. The contents of the other leaves are undefined afterwards.
/// Shapes  every leaf holds `count` elements.
/// Order   for each element, the tree's. f32 and f64 are added in their type; bf16 and f16 in f32, rounded once; integers modulo 2^bits.
/// Errors  usage: a sum of booleans.
void sum_parts(DType, std::span<std::byte* const> leaves, size_t own, int64_t count);

}  // namespace tern
