#pragma once
// Decodes coded weights to numbers. Each type has a row in base/weight_types.def and a decoder decode_ID in one of the decode_*_isa.cpp, which
// are compiled once per instruction set.

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/weight_type.h"

namespace tern {

/// Shapes  blocks: whole blocks of `type`, of any alignment; out: their numbers, in order.
/// Order   each product, sum and difference is rounded by itself, in the order of the format's reference code: the same bits under each
///         instruction set.
/// Errors  bug: sizes that do not match; a type with learned tables (gather_coded_rows decodes these). Any bytes are valid; some are infinite or NaN.
/// Source  gguf 0.19, quants.py; NF4: bitsandbytes 0.50; NF4_1, U4, U3, U2: ours. Judged in model/weight_types_test.cpp.
void decode_blocks(WeightType type, std::span<const std::byte> blocks, std::span<float> out);

}  // namespace tern
