#pragma once
// The sum of what the ranks sent: the arithmetic of Comm.

#include <cstddef>
#include <span>

#include "base/dtype.h"

namespace tern {

/// leaves[own] becomes the sum of all leaves in the tree of spec/sum_order.h; the others' elements are used up.
/// Shapes  every leaf holds `count` elements.
/// Order   per element that of the tree. f32, f64: in their type. bf16, f16: in f32, rounded once. Integers: modulo 2^bits.
/// Errors  usage: booleans.
void sum_parts(DType, std::span<std::byte* const> leaves, size_t own, int64_t count);

}  // namespace tern
