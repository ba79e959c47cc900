#pragma once
// Matrix products of bf16 on the processor's tile unit (AMX), one task on one thread; tile_matmul.cpp deals tasks to
// threads. Sets without tiles have an empty table.

#include <cstdint>

#include "base/dtype.h"
#include "kernels/cpu/tables.h"
#include "kernels/cpu/weight_rows.h"

namespace tern {

constexpr int64_t kTileRows16 = 16;  // rows of a tile
constexpr int64_t kTileDepth = 32;   // elements of the summed dimension that one instruction takes
constexpr int64_t kTilePanel = 32;   // columns of a panel: two tiles side by side
/// Rows of dy and x that a weight gradient sums in registers before it adds to dw: a panel of x is then 32 KiB, for L1.
/// Another value gives other bits.
constexpr int64_t kTileSumBlock = 512;
// An input gradient whose sum is longer than kTileNnDepth takes kTileNnDepth elements of it at a time; meanwhile the sums of
// kTileNnPanels panels wait in L2.
constexpr int64_t kTileNnDepth = 512, kTileNnPanels = 8;

/// The part of a gradient that one task makes: rows [row, row + rows), columns of the panels [panel, panel + panels).
/// `left` takes the packed rows of the left factor, (rows rounded up to 32) × (depth rounded up to 32) elements. `right` takes one
/// packed panel of the right factor at a time; for `nn` with n above kTileNnDepth it takes kTileNnPanels of them, and behind these
/// the sums. Both begin on a cache line. depth: min(n, kTileNnDepth) for `nn`, min(m, kTileSumBlock) for `tn`.
struct TileTask {
  int64_t row, rows, panel, panels;
  bf16 *left, *right;
};

constexpr int64_t kTileStrip = 32;    // rows of a strip of the weight: two tiles for `wide`; `thin` takes one tile
constexpr int64_t kThinTokens = 16;   // up to this many rows of x are one tile's columns, and no weight is packed
constexpr int64_t kWideDepth = 512;   // of the summed dimension at a time: a strip of weights is then 32 KiB, for L1
constexpr int64_t kWideTokens = 512;  // rows of x at a time: 512 KiB with kWideDepth elements of each, for L2
constexpr int64_t kWideStrips = 8;    // strips of weights that share those rows; the strips' sums are another 512 KiB

/// y (m, n) = x (m, k)·wᵀ + bias; if `add`, y += this. The weight's rows come in pieces and are not packed.
template <class Out>
struct TileProduct {
  const WeightRows<bf16>* pieces;
  int64_t num_pieces;
  const bf16* bias;  // (n), or null
  int64_t m, n, k;
  bool add;
  Out* y;
  int64_t y_stride;
};
/// One task: strips [begin, end) of the weight times rows [token, token + tokens) of x. A strip has 32 rows (`thin`: 16);
/// strips are counted over all pieces, and none crosses from one piece into the next. `right` holds these rows of x, packed: for
/// `thin` by pack_thin, for `wide` in panels of 32 rows by pack_panel.
struct StripTask {
  int64_t begin, end, token, tokens;
  const bf16* right;
  void* scratch;  // `thin`: 16 · (k rounded up to 32) bf16; `wide`: its packed strips and its sums
};
template <class Out>
struct TileForward {
  void (*thin)(const TileProduct<Out>&, const StripTask&);
  void (*wide)(const TileProduct<Out>&, const StripTask&);
};

struct TileMatmulTable {
  bool present;
  /// Up to 32 rows of x (stride k) as a panel: (k rounded up to 32) × 32.
  void (*pack_panel)(const bf16* x, int64_t rows, int64_t k, bf16* panel);
  /// m rows of x (stride k), m up to 16, as (k rounded up to 32) · m elements: columns 2i and 2i + 1 of row 0, of row 1, … of row
  /// m − 1, for i = 0, 1, …; zeros behind k.
  void (*pack_thin)(const bf16* x, int64_t m, int64_t k, bf16* to);
  TileForward<bf16> to_bf16;
  TileForward<float> to_f32;
  /// dx (m, k) = dy (m, n)·w (n, k), or += if `add`. The task is a part of dx.
  void (*nn)(const TileTask&, const bf16* dy, const bf16* w, int64_t n, int64_t k, bool add, bf16* dx);
  /// dw (n, k) += dyᵀ·x, summed over m rows. The task is a part of dw.
  void (*tn)(const TileTask&, const bf16* dy, const bf16* x, int64_t m, int64_t n, int64_t k, float* dw);
};
TERN_DECLARE_TABLES(TileMatmulTable, tile_matmul_table)

}  // namespace tern
