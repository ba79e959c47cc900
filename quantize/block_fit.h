#pragma once
// The scale of a block that leaves the least error, where the reference takes it from the extremes alone.

#include <span>
#include <string>

#include "formats/gguf/block_codes.h"
#include "formats/gguf/round_blocks.h"

namespace tern {

/// What levels_of gives, and for U4, U3, U2: codes 0 to 2^bits − 1, from `least` up. Errors  bug: another type.
BlockLevels fitted_levels(WeightType);
/// scale·(code − zero) + least, rounded as the type's decoder rounds it.
float number_of(const BlockCodes&, const BlockLevels&, int code);
/// The code whose number is nearest to x.
int nearest_code(const BlockCodes&, const BlockLevels&, float x);

/// Scale (and least) for the numbers of a block, both as the type holds them (f16, U types f32), with the nearest codes: of the
/// reference's scale and 24 smaller or larger ones, each fitted to its codes by least squares, the one with the smallest
/// Σ importance·(x − number)². Never worse than the reference's. Where several are equal the first is taken. A block beyond
/// f16's range gets its largest scale.
BlockCodes fit_block(WeightType, std::span<const float> x, std::span<const float> importance);

/// Appends the block: append_block, which here takes U4, U3, U2 too (layout: kernels/cpu/decode_uniform_isa.cpp).
void append_fitted(WeightType, const BlockCodes&, std::string& out);

}  // namespace tern
