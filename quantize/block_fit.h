#pragma once
// The scale of a block that leaves the least error, where the reference takes it from the extremes alone.

#include <array>
#include <span>

#include "formats/gguf/round_blocks.h"

namespace tern {

inline constexpr size_t kBlockWeights = 32;

/// scale·(code − zero) + least, rounded as the type's decoder rounds it.
float number_of(const BlockCodes&, const BlockLevels&, int code);
/// The code whose number is nearest to x.
int nearest_code(const BlockCodes&, const BlockLevels&, float x);

/// Scale (and least) for 32 numbers, both as f16 holds them, with the nearest codes: of the reference's scale and 24 smaller or
/// larger ones, each fitted to its codes by least squares, the one with the smallest Σ importance·(x − number)². Never worse
/// than the reference's. Where several are equal the first is taken. A block beyond f16's range gets its largest scale.
BlockCodes fit_block(WeightType, std::span<const float, kBlockWeights> x,
                     std::span<const float, kBlockWeights> importance);

}  // namespace tern
