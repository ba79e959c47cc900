#pragma once
// Plain twins (reference implementations) of kernels/cpu/heads.h, in doubles.

#include <span>

#include "kernels/cpu/heads.h"

namespace tern {

/// Shapes as in kernels/cpu/heads.h.
void copy_heads_ref(HeadShape, std::span<const double> from, HeadPieces, std::span<double> to, HeadPieces);
void zero_heads_ref(HeadShape, std::span<double> to, HeadPieces);
void sum_heads_ref(HeadShape, std::span<const double> from, HeadPieces, std::span<double> to, HeadPieces);

}  // namespace tern
