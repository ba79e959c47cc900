#pragma once
// Measures the arithmetic units alone: loops of multiply-adds whose factors and sums stay in registers. No product of
// matrices can be faster on this instruction set, so `tern bench` compares the products with these loops.

#include <cstdint>
#include <string_view>

#include "base/dtype.h"

namespace tern {

struct UnitWork {
  double multiply_adds = 0;
  double sum = 0;  // of all results. Each multiply-add adds 1, so this counts them while no register exceeds 2^24
};
/// Runs steps·(compute threads) steps of the loop in all, in blocks. A thread that has finished a block takes the next one, so a slow
/// thread takes fewer. f32, or bf16 by the set's instruction that sums products of bf16 in f32; a set without one runs the f32 loop.
UnitWork work_units(DType, int64_t steps);
/// What the loops run: "tdpbf16ps on tiles", "vdpbf16ps, 16 sums", "fused multiply-add, 16 lanes".
std::string_view units_name(DType);

}  // namespace tern
