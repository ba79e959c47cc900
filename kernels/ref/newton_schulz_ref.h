#pragma once
// The plain twin of kernels/cpu/newton_schulz.h: the formula as it stands, in doubles, short side first.

#include <cstdint>
#include <span>

namespace tern {

void newton_schulz_ref(std::span<double> matrix, int64_t rows, int64_t columns);

}  // namespace tern
