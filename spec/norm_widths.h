#pragma once
// What a block's norms move, as the sums of UnitCost's bytes moved count it.

#include <cstdint>

namespace tern {

/// How often the norm of an attention or an MLP, and its residual, read or write a row of the model's width.
struct NormWidths {
  int64_t forward = 3, backward_input = 3, backward_weight = 4;
};
inline constexpr NormWidths kNormWidths;

}  // namespace tern
