#pragma once
// The scale of a block that leaves the least error, where the reference (formats/gguf/round_blocks.h) takes it from the extremes alone.

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

/// Scale (and least) for the numbers of a block, as the type holds them (f16; U types: f32), and the nearest codes. It tries the
/// reference's scale and 24 smaller or larger ones, fits each to its codes by least squares, and takes the one with the smallest
/// Σ importance·(x − number)², of equals the first. So the result is never worse than the reference's. A block beyond f16's
/// range gets f16's largest scale.
BlockCodes fit_block(WeightType, std::span<const float> x, std::span<const float> importance);

/// Appends the block as append_block does, and also takes U4, U3 and U2 (layout: kernels/cpu/decode_uniform_isa.cpp).
void append_fitted(WeightType, const BlockCodes&, std::string& out);

}  // namespace tern
