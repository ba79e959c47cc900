// The three products of a linear layer for sets with a tile unit. A task packs its rows of the left factor once (they
// stay in L2), then takes panel after panel of the right one (a panel stays in L1 while the rows pass by). An element
// is one chain over the whole summed dimension, in registers: it depends on its row, its column and K alone (DESIGN
// §4.1).

#include "kernels/cpu/tile_matmul_table.h"
#include "kernels/cpu/tiles_impl.h"

namespace tern::TERN_ISA_NAMESPACE {
namespace {

#if defined(__AMX_BF16__)

/// y (rows, columns; stride) = c + bias, or y + (c + bias): in f32, rounded once.
template <class Out>
inline void finish(const float* c, int64_t rows, int64_t columns, const bf16* bias, bool add, Out* y, int64_t stride) {
  if (columns == kTilePanel && !bias && !add) {
    for (int64_t r = 0; r < rows; ++r) {
      const Vec low = load(c + r * kTilePanel), high = load(c + r * kTilePanel + kLanes);
      store(y + r * stride, low);
      store(y + r * stride + kLanes, high);
    }
    return;
  }
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t j = 0; j < columns; j += kLanes) {
      const int64_t n = columns - j < kLanes ? columns - j : kLanes;
      Vec value = load(c + r * kTilePanel + j);
      if (bias) value = value + load_some(bias + j, n);
      if (add) value = load_some(y + r * stride + j, n) + value;
      store_some(y + r * stride + j, value, n);
    }
}

/// Rows of the packed left factor times one panel.
template <class Out>
inline void times_panel(const TileTask& t, const bf16* panel, int64_t depth, int64_t columns, const bf16* bias,
                        bool add, Out* y, int64_t stride) {
  alignas(64) float c[2 * kTileRows16 * kTilePanel];
  const int64_t steps = whole(depth, kTileDepth) / kTileDepth, strip = steps * kTileElements;
  for (int64_t r = 0; r < t.rows; r += 2 * kTileRows16) {
    const bf16* a = t.left + r / kTileRows16 * strip;
    const int64_t rows = t.rows - r < 2 * kTileRows16 ? t.rows - r : 2 * kTileRows16;
    if (rows > kTileRows16)
      tile_block<true>(a, strip, panel, steps, c);
    else
      tile_block<false>(a, strip, panel, steps, c);
    finish(c, rows, columns, bias, add, y + r * stride, stride);
  }
}

inline int64_t columns_of(int64_t panel, int64_t all) {
  const int64_t left = all - panel * kTilePanel;
  return left < kTilePanel ? left : kTilePanel;
}

void pack(int64_t panel, int64_t panels, const bf16* w, int64_t n, int64_t k, bf16* packed) {
  const int64_t size = kTilePanel * whole(k, kTileDepth);
  for (int64_t p = panel; p < panel + panels; ++p)
    pack_right_transposed(w + p * kTilePanel * k, k, columns_of(p, n), k, packed + p * size);
}

template <class Out>
void exact(const TileTask& t, const bf16* x, const bf16* packed, const bf16* bias, int64_t n, int64_t k, bool add,
           Out* y) {
  const Tiles tiles;
  const int64_t size = kTilePanel * whole(k, kTileDepth);
  pack_left(x + t.row * k, k, t.rows, t.rows, k, t.left);
  for (int64_t p = t.panel; p < t.panel + t.panels; ++p)
    times_panel(t, packed + p * size, k, columns_of(p, n), bias ? bias + p * kTilePanel : nullptr, add,
                y + t.row * n + p * kTilePanel, n);
}

void nn(const TileTask& t, const bf16* dy, const bf16* w, int64_t n, int64_t k, bool add, bf16* dx) {
  const Tiles tiles;
  pack_left(dy + t.row * n, n, t.rows, t.rows, n, t.left);
  for (int64_t p = t.panel; p < t.panel + t.panels; ++p) {
    pack_right(w + p * kTilePanel, k, columns_of(p, k), n, t.right);
    times_panel(t, t.right, n, columns_of(p, k), nullptr, add, dx + t.row * k + p * kTilePanel, k);
  }
}

void tn(const TileTask& t, const bf16* dy, const bf16* x, int64_t m, int64_t n, int64_t k, float* dw) {
  const Tiles tiles;
  for (int64_t r = 0; r < m; r += kTileSumBlock) {
    const int64_t depth = m - r < kTileSumBlock ? m - r : kTileSumBlock;
    pack_left_transposed(dy + r * n + t.row, n, t.rows, depth, t.left);
    for (int64_t p = t.panel; p < t.panel + t.panels; ++p) {
      pack_right(x + r * k + p * kTilePanel, k, columns_of(p, k), depth, t.right);
      times_panel(t, t.right, depth, columns_of(p, k), nullptr, true, dw + t.row * k + p * kTilePanel, k);
    }
  }
}

}  // namespace

const TileMatmulTable tile_matmul_table = {
    .present = true, .pack = pack, .exact_bf16 = exact<bf16>, .exact_f32 = exact<float>, .nn = nn, .tn = tn};

#else

}  // namespace

const TileMatmulTable tile_matmul_table = {};

#endif

}  // namespace tern::TERN_ISA_NAMESPACE
