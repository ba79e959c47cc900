#pragma once
// Matrix products of bf16 on the processor's tile unit (AMX), one task on one thread; tile_matmul.cpp deals tasks to
// threads. Sets without tiles have an empty table.

#include <cstdint>

#include "base/dtype.h"
#include "kernels/cpu/tables.h"

namespace tern {

constexpr int64_t kTileRows16 = 16;  // rows of a tile
constexpr int64_t kTileDepth = 32;   // elements of the summed dimension that one instruction takes
constexpr int64_t kTilePanel = 32;   // columns of a panel: two tiles side by side
/// Rows of dy and x that a weight gradient sums in registers before it adds to dw: a panel of x is then 32 KiB, for L1.
/// Belongs to the bits.
constexpr int64_t kTileSumBlock = 512;

/// A block of rows of the result by a range of panels of its columns. The left factor is packed into `left` first:
/// (rows rounded up to 32) × (depth rounded up to 32) elements; `panel`: 32 columns of the right factor, where that is
/// packed on the way. Both on a cache line.
struct TileTask {
  int64_t row, rows, panel, panels;
  bf16 *left, *right;
};

template <class Out>
using TileExact = void (*)(const TileTask&, const bf16* x, const bf16* packed, const bf16* bias, int64_t n, int64_t k,
                           bool add, Out* y);

struct TileMatmulTable {
  bool present;
  /// Rows [32·panel, …) of w (n, k) into their place in the packed weight.
  void (*pack)(int64_t panel, int64_t panels, const bf16* w, int64_t n, int64_t k, bf16* packed);
  /// y (m, n) = x·wᵀ + bias: rows of x, panels of n.
  TileExact<bf16> exact_bf16;
  TileExact<float> exact_f32;
  /// dx (m, k) = dy (m, n)·w (n, k): rows of dy, panels of k.
  void (*nn)(const TileTask&, const bf16* dy, const bf16* w, int64_t n, int64_t k, bool add, bf16* dx);
  /// dw (n, k) += dyᵀ·x over m rows: rows of dw, panels of k.
  void (*tn)(const TileTask&, const bf16* dy, const bf16* x, int64_t m, int64_t n, int64_t k, float* dw);
};
TERN_DECLARE_TABLES(TileMatmulTable, tile_matmul_table)

}  // namespace tern
