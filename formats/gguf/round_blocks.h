#pragma once
// Numbers rounded to GGUF's block types, as the format's reference rounds them: scales come from the block's extremes
// alone, without a search.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/weight_type.h"

namespace tern {

/// Whether numbers are rounded to this type: F32, F16, BF16, Q8_0, Q5_1, Q5_0, Q4_1, Q4_0.
bool rounds_to(WeightType);
/// The names of these types, as a message lists them: "F32, F16, …, Q4_0".
std::string names_that_round();

/// Appends the blocks of `x` to `out`. f16 and bf16 round to nearest, ties to even. Of a block of 32, all in f32:
///   Q8_0        d = max|x|/127, q = x·(1/d) rounded half away from zero
///   Q5_0, Q4_0  d = m/−16 or m/−8, where m is the first number of the largest magnitude;
///               q = ⌊x·(1/d) + 16.5⌋ or ⌊x·(1/d) + 8.5⌋
///   Q5_1, Q4_1  d = (max − min)/31 or /15, q = ⌊(x − min)·(1/d) + 0.5⌋
/// d and min are stored as f16, q is clipped to its bits.
/// Errors  bad_file: naming `tensor`, a number that is NaN or infinite, a scale beyond f16's range (block types); bug:
///         a type that rounds_to does not know, a part of a block.
/// Source  gguf 0.19, quants.py: the same bits (dev/golden/gguf_files.py).
void round_blocks(WeightType, std::span<const float> x, std::string_view tensor, std::string& out);

}  // namespace tern
