#pragma once
// Tensors of a GGUF file as floats, bit for bit as the format's own reference computes them.

#include <cstddef>
#include <span>

#include "formats/gguf/gguf.h"

namespace tern {

/// f32, f16, bf16, Q8_0, Q4_0, Q4_K, Q5_K, Q6_K, IQ4_XS.
bool gguf_can_dequantize(GgufType);

/// Shapes  bytes: whole blocks of `type`; out: their elements, in order.
/// Order   every product and difference rounded once, as written in the reference: scale · sub-scale first, then
///         · quant, then − minimum.
/// Errors  bad_file: a type not in the list above; bug: sizes that do not match.
/// Source  gguf 0.19, quants.py (facts of the layouts; the judge of the bits).
void gguf_dequantize(GgufType type, std::span<const std::byte> bytes, std::span<float> out);

}  // namespace tern
