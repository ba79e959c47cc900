#pragma once
// Products of bf16 on the tile unit; kernels/cpu/matmul.cpp calls them where the instruction set has one. Shapes and order as in
// kernels/cpu/matmul.h. Each thread keeps scratch for what it packs, as much as its largest product so far took. tile_*_scratch return the
// scratch of one product with the present number of threads; more rows m never give fewer bytes.

#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "kernels/cpu/thread_scratch.h"
#include "kernels/cpu/weight_rows.h"
#include "kernels/dispatch.h"

namespace tern {

struct TileMatmulTable;
/// The products of one set, for the calls below.
const TileMatmulTable& tile_matmul_of(Isa);
bool has_tiles(Isa);
/// y = x·wᵀ + bias, the rows of w in pieces (kernels/cpu/matmul.h, multiply_plain).
template <class Out>
void tile_forward(const TileMatmulTable&, const bf16* x, std::span<const WeightRows<bf16>> w, const bf16* bias,
                  int64_t m, int64_t n, int64_t k, bool add, Out* y, int64_t y_stride);
void tile_nn(const TileMatmulTable&, const bf16* dy, const bf16* w, int64_t m, int64_t n, int64_t k, bool add,
             bf16* dx);
void tile_tn(const TileMatmulTable&, const bf16* dy, const bf16* x, int64_t m, int64_t n, int64_t k, float* dw);

ThreadBytes tile_forward_scratch(int64_t m, int64_t n, int64_t k);
ThreadBytes tile_nn_scratch(int64_t m, int64_t n, int64_t k);
ThreadBytes tile_tn_scratch(int64_t m, int64_t n, int64_t k);

}  // namespace tern
