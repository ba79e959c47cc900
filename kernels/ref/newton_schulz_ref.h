#pragma once
// The plain twin (reference implementation) of kernels/cpu/newton_schulz.h, in doubles. It transposes a matrix with more rows than columns first.

#include <cstdint>
#include <span>

namespace tern {

void newton_schulz_ref(std::span<double> matrix, int64_t rows, int64_t columns);

}  // namespace tern
