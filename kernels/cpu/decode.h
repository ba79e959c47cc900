#pragma once
// Numbers of coded weights. A type is a row of base/weight_types.def and a decoder decode_ID in a decode_*_isa.cpp, which
// is compiled once per instruction set.

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/weight_type.h"

namespace tern {

/// Shapes  blocks: whole blocks of `type`, of any alignment; out: their numbers, in order.
/// Order   every product, sum and difference rounded once, as the format's reference writes them: the same bits under
///         each instruction set.
/// Errors  bug: sizes that do not match; a type with learned tables (gather_coded_rows decodes its rows). No byte is refused: any bytes are numbers, infinite or NaN ones too.
/// Source  gguf 0.19, quants.py; NF4: bitsandbytes 0.50; NF4_1, U4, U3, U2: ours. Judged in model/weight_types_test.cpp.
void decode_blocks(WeightType type, std::span<const std::byte> blocks, std::span<float> out);

}  // namespace tern
