#pragma once
// The dynamic 8-bit type: numbers as codes of 256 values, with a scale for each block of them.

#include <array>
#include <cstdint>
#include <span>

namespace tern {

inline constexpr int64_t kCodeBlock = 2048;  // elements that share a scale

/// The 256 values of the dynamic 8-bit type, ascending; the last is 1. A code has a sign, a decimal exponent in unary, and a linear fraction in
/// the bits that are left. The unsigned type has no sign and one more bit of fraction.
/// Source: Dettmers 2016, arXiv:1511.04561; Dettmers et al. 2022, arXiv:2110.02861, section 2.1. The same values as bitsandbytes' and
/// torchao's (tests/golden/optimizers8.json).
const std::array<float, 256>& signed_codes();
const std::array<float, 256>& unsigned_codes();

/// Writes for each x / scale the code of the nearest value (of two equally near, the larger). Returns scale: the largest |x|, at least 1e-12. At
/// most kCodeBlock elements.
/// `values` is signed_codes() or unsigned_codes(), the table itself.
float encode(std::span<const float> x, const std::array<float, 256>& values, std::span<uint8_t> codes);

}  // namespace tern
