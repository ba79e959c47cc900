#pragma once
// Products of bf16 on the tile unit: what kernels/cpu/matmul.cpp calls where the instruction set has one. Shapes, order
// and errors as there. Each thread keeps scratch for the factors it packs: tile_scratch_bytes of the largest product
// so far.

#include <cstdint>

#include "base/dtype.h"
#include "kernels/dispatch.h"

namespace tern {

bool has_tiles(Isa);
constexpr int64_t kTilePadding = 32;
/// Columns of a panel and elements of the summed dimension are both padded to 32.
int64_t tile_packed_bytes(int64_t n, int64_t k);
void tile_pack(Isa, const bf16* w, int64_t n, int64_t k, bf16* packed);
template <class Out>
void tile_exact(Isa, const bf16* x, const bf16* packed, const bf16* bias, int64_t m, int64_t n, int64_t k, bool add,
                Out* y);
void tile_nn(Isa, const bf16* dy, const bf16* w, int64_t m, int64_t n, int64_t k, bool add, bf16* dx);
void tile_tn(Isa, const bf16* dy, const bf16* x, int64_t m, int64_t n, int64_t k, float* dw);

}  // namespace tern
