#pragma once
// AdamW with moments of 8 bits. Twin: kernels/ref/adamw8_ref.h.

#include <array>
#include <cstdint>
#include <span>

#include "kernels/cpu/optimizer.h"

namespace tern {

inline constexpr int64_t kCodeBlock = 2048;  // elements that share a scale

/// The 256 values of the dynamic 8-bit type, ascending, the last 1: a sign, a decimal exponent in unary, and a linear fraction in the
/// bits that are left; the unsigned type has one bit more for the fraction.
/// Source: Dettmers 2016, arXiv:1511.04561; Dettmers et al. 2022, arXiv:2110.02861, section 2.1. The very values of bitsandbytes and
/// torchao (tests/golden/optimizers8.json).
const std::array<float, 256>& signed_codes();
const std::array<float, 256>& unsigned_codes();

/// Writes the codes of x / scale, to the nearest, ties upwards, and returns scale: the largest |x|, at least 1e-12. At most
/// kCodeBlock elements.
/// `values` is one of the two tables.
float encode(std::span<const float> x, const std::array<float, 256>& values, std::span<uint8_t> codes);

/// Moments of one parameter: m by signed_codes, v by unsigned_codes, a scale for each block of kCodeBlock elements.
struct CodedMoments {
  std::span<uint8_t> m, v;
  std::span<float> m_scale, v_scale;
};
/// AdamW's step (kernels/cpu/optimizer.h) on moments that are decoded before and encoded after it, block by block; the step itself
/// sees the moments before they are rounded. m is signed, v unsigned; a scale for each block of kCodeBlock elements, the last one may
/// be shorter. The gradient becomes zero.
void adamw8_step(const AdamwStep&, std::span<float> gradient, std::span<float> weight, const CodedMoments&,
                 std::span<bf16> compute);

}  // namespace tern
