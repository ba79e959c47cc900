// The three products of a linear layer for sets with a tile unit.
//
// The forward takes the weight as the left factor, as it lies in memory (a tile is 16 of its rows), and x as the right
// one: so a weight need not be packed, and a mapped file serves as it is.
//
// Gradients: a task packs its rows of the left factor once (they stay in L2), then takes panel after panel of the right
// one (a panel stays in L1 while the rows pass by).
//
// An element is one chain over the whole summed dimension; one of a weight gradient adds a chain of kTileSumBlock rows
// to dw, then the next. Both depend on row, column and length alone.

#include "kernels/cpu/tile_matmul_table.h"
#include "kernels/cpu/tiles_impl.h"

namespace tern::TERN_ISA_NAMESPACE {
namespace {

#if defined(__AMX_BF16__)

/// y (rows, columns; stride) = c, or y + c: in f32, rounded once.
template <class Out>
inline void finish(const float* c, int64_t rows, int64_t columns, bool add, Out* y, int64_t stride) {
  if (columns == kTilePanel && !add) {
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
      if (add) value = load_some(y + r * stride + j, n) + value;
      store_some(y + r * stride + j, value, n);
    }
}

/// Rows of the packed left factor times one panel.
template <class Out>
inline void times_panel(const TileTask& t, const bf16* panel, int64_t depth, int64_t columns, bool add, Out* y,
                        int64_t stride) {
  alignas(64) float c[2 * kTileRows16 * kTilePanel];
  const int64_t steps = round_up(depth, kTileDepth) / kTileDepth, strip = steps * kTileElements;
  for (int64_t r = 0; r < t.rows; r += 2 * kTileRows16) {
    const bf16* a = t.left + r / kTileRows16 * strip;
    const int64_t rows = t.rows - r < 2 * kTileRows16 ? t.rows - r : 2 * kTileRows16;
    if (rows > kTileRows16)
      tile_block<true>(a, strip, panel, steps, c);
    else
      tile_block<false>(a, strip, panel, steps, c);
    finish(c, rows, columns, add, y + r * stride, stride);
  }
}

inline int64_t columns_of(int64_t panel, int64_t all) {
  const int64_t left = all - panel * kTilePanel;
  return left < kTilePanel ? left : kTilePanel;
}

/// `height` rows of a weight, or what is left of a piece.
struct Strip {
  const bf16* w;
  int64_t rows, n;  // n: the first of them in the result
};
template <int64_t kHeight, class Out>
inline Strip strip_at(const TileProduct<Out>& p, int64_t index) {
  const WeightRows<bf16>* piece = p.pieces;
  int64_t n = 0, row = index * kHeight;
  for (; row >= round_up(piece->count, kHeight); ++piece) row -= round_up(piece->count, kHeight), n += piece->count;
  const int64_t left = piece->count - row;
  return {piece->rows + row * p.k, left < kHeight ? left : kHeight, n + row};
}

/// y (tokens, n; stride p.y_stride) from c (32 rows of n, 32 tokens).
template <class Out>
inline void finish_transposed(const TileProduct<Out>& p, const float* c, Strip strip, int64_t token, int64_t tokens) {
  for (int64_t row = 0; row < strip.rows; row += 16)
    for (int64_t t0 = 0; t0 < tokens; t0 += 16) {
      Vec v[16];
      for (int64_t r = 0; r < 16; ++r) v[r] = load(c + (row + r) * kTilePanel + t0);
      transpose(v);
      const int64_t n = strip.rows - row < 16 ? strip.rows - row : 16, count = tokens - t0 < 16 ? tokens - t0 : 16;
      const Vec bias = p.bias ? load_some(p.bias + strip.n + row, n) : splat(0.0f);
      for (int64_t t = 0; t < count; ++t) {
        Out* y = p.y + (token + t0 + t) * p.y_stride + strip.n + row;
        Vec value = v[t];
        if (p.bias) value = value + bias;
        if (p.add) value = load_some(y, n) + value;
        store_some(y, value, n);
      }
    }
}

/// Few rows of x: they are the columns of one tile, and the weights stream by as they lie, each read once. The
/// processor fetches ahead within a page by itself, in 16 rows at a time better than in 32 or 8; asking for more lines
/// of those rows costs up to a tenth. What it does not know is where it goes on: the first lines of the next strip's
/// rows are asked for during the last steps of this one (+2 to 3 % where rows are pages).
template <class Out>
void thin(const TileProduct<Out>& p, const StripTask& t) {
  const Tiles tiles(p.m);
  constexpr int64_t kHeads = 8;  // steps, each asks for two lines of two rows
  const int64_t stride = p.m * 4, whole_steps = p.k / kTileDepth, tail = p.k % kTileDepth;
  const int64_t heads_from = whole_steps < kHeads ? 0 : whole_steps - kHeads;
  alignas(64) float c[kTileRows16 * kThinTokens] = {};
  alignas(64) bf16 edge[kTileRows16 * kTileDepth];
  auto* const rows = static_cast<bf16*>(t.scratch);
  for (int64_t s = t.begin; s < t.end; ++s) {
    const Strip strip = strip_at<kTileRows16>(p, s);
    int64_t step = p.k;
    const bf16 *x = t.right, *at = strip.w, *next = strip.w + kTileRows16 * p.k;  // asking needs no memory there
    if (strip.rows < kTileRows16) {  // rows beyond the last are another's, or nobody's
      step = round_up(p.k, kTileDepth);
      for (int64_t i = 0; i < kTileRows16 * step; i += kTileDepth) store_line(rows + i, VecUint{});
      for (int64_t r = 0; r < strip.rows; ++r) __builtin_memcpy(rows + r * step, at + r * p.k, p.k * sizeof(bf16));
      at = rows;
    }
    const auto multiply = [&] {
      _tile_loadd(6, x, stride);
      _tile_loadd(4, at, step * 2);
      _tile_dpbf16ps(0, 4, 6);
      x += kTileDepth * p.m, at += kTileDepth;
    };
    finish_stores();
    _tile_zero(0);
    for (int64_t i = 0; i < heads_from; ++i) multiply();
    for (int64_t i = heads_from; i < whole_steps; ++i, next += 2 * p.k) {
      for (const bf16* row : {next, next + p.k}) {
        __builtin_prefetch(row, 0, 2);
        __builtin_prefetch(row + kTileDepth, 0, 2);
      }
      multiply();
    }
    if (tail) {
      for (int64_t i = 0; i < kTileRows16; ++i) store_line(edge + i * kTileDepth, load_dwords(at + i * step, tail));
      finish_stores();
      _tile_loadd(6, x, stride);
      _tile_loadd(4, edge, 64);
      _tile_dpbf16ps(0, 4, 6);
    }
    _tile_stored(0, c, stride);
    finish_stores();
    Vec of_tokens[kTileRows16];  // behind the last token what no one reads
    for (int64_t r = 0; r < (p.m == 1 ? 1 : kTileRows16); ++r) of_tokens[r] = load(c + r * p.m);
    if (p.m > 1) transpose(of_tokens);
    const Vec bias = p.bias ? load_some(p.bias + strip.n, strip.rows) : splat(0.0f);
#pragma GCC unroll 16
    for (int64_t j = 0; j < kThinTokens; ++j) {
      if (j == p.m) break;
      Out* y = p.y + j * p.y_stride + strip.n;
      Vec value = of_tokens[j];
      if (p.bias) value = value + bias;
      if (p.add) value = load_some(y, strip.rows) + value;
      store_some(y, value, strip.rows);
    }
  }
}

/// Touches what the next step will pack: `lines` cache lines a step of the tile unit.
struct Ahead {
  const char* at;
  int64_t stride, rows, lines, next;
  void touch() {
    for (int64_t i = 0; i < lines && next < rows * kWideDepth / 32; ++i, ++next)
      __builtin_prefetch(at + next / (kWideDepth / 32) * stride + next % (kWideDepth / 32) * 64, 0, 2);
  }
};

void pack_thin(const bf16* x, int64_t m, int64_t k, bf16* to) {
  if (m == 1) {
    for (int64_t d = 0; d < k; d += kTileDepth) store_line(to + d, load_dwords(x + d, k - d));
    return;
  }
  const auto some = static_cast<__mmask16>((1u << m) - 1);
  for (int64_t d = 0; d < k; d += kTileDepth) {
    Vec v[16];
    for (int64_t r = 0; r < 16; ++r) v[r] = (Vec)(r < m ? load_dwords(x + r * k + d, k - d) : VecUint{});
    transpose(v);
    for (int64_t pair = 0; pair < 16; ++pair) _mm512_mask_storeu_ps(to + d * m + pair * 2 * m, some, (__m512)v[pair]);
  }
}

void pack_panel(const bf16* x, int64_t rows, int64_t k, bf16* panel) { pack_right_transposed(x, k, rows, k, panel); }

/// Many rows of x, packed: blocks of the summed dimension in turn for a group of strips, whose sums wait in L2. Passing
/// a sum through memory in f32 changes no bit of it.
template <class Out>
void wide(const TileProduct<Out>& p, const StripTask& t) {
  const Tiles tiles;
  const int64_t depth = round_up(p.k, kTileDepth), panels = round_up(t.tokens, kTilePanel) / kTilePanel;
  const int64_t block = kTileStrip * kTilePanel;
  auto* const left = static_cast<bf16*>(t.scratch);
  auto* const sums = reinterpret_cast<float*>(left + kTileStrip * kWideDepth);
  const bool single = depth <= kWideDepth;
  for (int64_t group = t.begin; group < t.end; group += kWideStrips) {
    const int64_t strips = t.end - group < kWideStrips ? t.end - group : kWideStrips;
    for (int64_t d = 0; d == 0 || d < p.k; d += kWideDepth) {  // once for an empty sum too: y is the bias
      const int64_t span = p.k - d < kWideDepth ? p.k - d : kWideDepth, steps = round_up(span, kTileDepth) / kTileDepth;
      for (int64_t s = 0; s < strips; ++s) {
        const Strip strip = strip_at<kTileStrip>(p, group + s);
        const bool last = s + 1 == strips;
        const int64_t next_d = last ? d + kWideDepth : d;
        const bool more = next_d < p.k;
        const Strip next = more ? strip_at<kTileStrip>(p, group + (last ? 0 : s + 1)) : strip;
        Ahead ahead = {reinterpret_cast<const char*>(next.w + next_d), p.k * 2, more ? next.rows : 0,
                       steps > 0 ? kWideDepth / (panels * steps) + 1 : 0, 0};
        pack_left(strip.w + d, p.k, kTileStrip, strip.rows, span, left);
        for (int64_t panel = 0; panel < panels; ++panel) {
          float* c = sums + (single ? 0 : (s * panels + panel) * block);
          const bf16* b = t.right + (panel * depth + d) * kTilePanel;
          const int64_t first = panel * kTilePanel,
                        tokens = t.tokens - first < kTilePanel ? t.tokens - first : kTilePanel;
          // The lines of y are far apart, so they are asked for while their sums end: two rows at each step.
          Out* const y = p.y + (t.token + first) * p.y_stride + strip.n;
          const int64_t lines_of_y = d + span < p.k ? 0 : tokens;
          const auto meanwhile = [&](int64_t step) {
            ahead.touch();
            for (int64_t r = 2 * step; r < 2 * step + 2 && r < lines_of_y; ++r)
              __builtin_prefetch(y + r * p.y_stride, 1);
          };
          if (d == 0)
            tile_block<true, false, true>(left, steps * kTileElements, b, steps, c, kTilePanel, meanwhile);
          else
            tile_block<true, true, true>(left, steps * kTileElements, b, steps, c, kTilePanel, meanwhile);
          if (d + span >= p.k) finish_transposed(p, c, strip, t.token + first, tokens);
        }
      }
    }
  }
}

/// Panels of w (depth, …; stride k) from panel p on, side by side: a row's bytes are read on, where panel by panel would take one
/// line of each of many pages.
inline void pack_right_panels(const bf16* w, int64_t k, int64_t p, int64_t panels, int64_t depth, bf16* out) {
  for (int64_t d = 0; d < round_up(depth, kTileDepth); d += 2)
    for (int64_t i = 0; i < panels; ++i)
      store_row_pair(load_row_pair(w + (p + i) * kTilePanel, k, columns_of(p + i, k), d, depth),
                     out + (i * kTileNnDepth + d) * kTilePanel);
}

/// Where the sum is longer than kTileNnDepth, its sums wait in L2 meanwhile: passing a sum through memory in f32 changes no bit.
void nn(const TileTask& t, const bf16* dy, const bf16* w, int64_t n, int64_t k, bool add, bf16* dx) {
  const Tiles tiles;
  if (n <= kTileNnDepth) {
    pack_left(dy + t.row * n, n, t.rows, t.rows, n, t.left);
    for (int64_t p = t.panel; p < t.panel + t.panels; ++p) {
      pack_right(w + p * kTilePanel, k, columns_of(p, k), n, t.right);
      times_panel(t, t.right, n, columns_of(p, k), add, dx + t.row * k + p * kTilePanel, k);
    }
    return;
  }
  constexpr int64_t kBlock = 2 * kTileRows16;  // rows of sums at a time
  auto* const sums = reinterpret_cast<float*>(t.right + kTileNnPanels * kTileNnDepth * kTilePanel);
  const int64_t blocks = ceil_div(t.rows, kBlock), end = t.panel + t.panels;
  for (int64_t group = t.panel; group < end; group += kTileNnPanels)
    for (int64_t d = 0; d < n; d += kTileNnDepth) {
      const int64_t span = n - d < kTileNnDepth ? n - d : kTileNnDepth;
      const int64_t steps = round_up(span, kTileDepth) / kTileDepth, strip = steps * kTileElements;
      const int64_t panels = end - group < kTileNnPanels ? end - group : kTileNnPanels;
      pack_left(dy + t.row * n + d, n, t.rows, t.rows, span, t.left);
      pack_right_panels(w + d * k, k, group, panels, span, t.right);
      for (int64_t p = group; p < group + panels; ++p) {
        const bf16* right = t.right + (p - group) * kTileNnDepth * kTilePanel;
        for (int64_t r = 0; r < t.rows; r += kBlock) {
          float* c = sums + ((p - group) * blocks + r / kBlock) * kBlock * kTilePanel;
          const bf16* a = t.left + r / kTileRows16 * strip;
          const int64_t rows = t.rows - r < kBlock ? t.rows - r : kBlock;
          if (rows > kTileRows16)
            d == 0 ? tile_block<true>(a, strip, right, steps, c) : tile_block<true, true>(a, strip, right, steps, c);
          else
            d == 0 ? tile_block<false>(a, strip, right, steps, c) : tile_block<false, true>(a, strip, right, steps, c);
          if (d + span < n) continue;
          finish(c, rows, columns_of(p, k), add, dx + (t.row + r) * k + p * kTilePanel, k);
        }
      }
    }
}

void tn(const TileTask& t, const bf16* dy, const bf16* x, int64_t m, int64_t n, int64_t k, float* dw) {
  const Tiles tiles;
  for (int64_t r = 0; r < m; r += kTileSumBlock) {
    const int64_t depth = m - r < kTileSumBlock ? m - r : kTileSumBlock;
    pack_left_transposed(dy + r * n + t.row, n, t.rows, depth, t.left);
    for (int64_t p = t.panel; p < t.panel + t.panels; ++p) {
      pack_right(x + r * k + p * kTilePanel, k, columns_of(p, k), depth, t.right);
      times_panel(t, t.right, depth, columns_of(p, k), true, dw + t.row * k + p * kTilePanel, k);
    }
  }
}

}  // namespace

const TileMatmulTable tile_matmul_table = {.present = true,
                                           .pack_panel = pack_panel,
                                           .pack_thin = pack_thin,
                                           .to_bf16 = {thin<bf16>, wide<bf16>},
                                           .to_f32 = {thin<float>, wide<float>},
                                           .nn = nn,
                                           .tn = tn};

#else

}  // namespace

const TileMatmulTable tile_matmul_table = {};

#endif

}  // namespace tern::TERN_ISA_NAMESPACE
