#pragma once
// AdamW with moments of 8 bits. Twin: kernels/ref/adamw8_ref.h.

#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "kernels/cpu/dynamic_codes.h"
#include "kernels/cpu/optimizer.h"

namespace tern {

/// The moments of one parameter: m as signed_codes, v as unsigned_codes, with a scale for each block of kCodeBlock elements.
struct CodedMoments {
  std::span<uint8_t> m, v;
  std::span<float> m_scale, v_scale;
};
/// AdamW's step (kernels/cpu/optimizer.h) block by block: the moments are decoded before it and encoded after it. The weights are updated
/// with the new moments before these are rounded to codes. The last block may have fewer than kCodeBlock elements. The
/// gradient becomes zero.
void adamw8_step(const AdamwStep&, std::span<float> gradient, std::span<float> weight, const CodedMoments&,
                 std::span<bf16> compute);

}  // namespace tern
