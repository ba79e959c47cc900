#pragma once
// Integer products of coded weights on the tile unit (AMX-int8); coded_int8.h says what is computed. Only for *_isa.cpp files.
// A row consists of stretches of 256 numbers, each of 8 groups of 32. A tile holds exact integer sums of 16 rows of x by 16 rows of w over
// one group, or over half a group for types with a scale for each 16 numbers, as scales differ from group to group. Group g of every
// stretch adds to f32 chain g. The loop takes group 0 of all stretches, then group 1, and so on, so that a group's chains stay in registers.

#if defined(__AMX_INT8__)

#include "kernels/cpu/coded_int8_table.h"
#include "kernels/cpu/row_dots_impl.h"
#include "kernels/cpu/small_gemm_impl.h"

namespace tern::TERN_ISA_NAMESPACE {
namespace {

constexpr int kTileRows = 16;
/// One group of 16 rows of x, rounded; zeros where a row is missing, or behind a row's end. Lane r of each vector belongs to row r.
struct XGroup {
  alignas(64) int8_t codes[kTileRows][32];
  Vec scales, sums, sums_of_16[2];  // as in Rounded
};
/// One group of 16 rows of w. codes[i]: codes 4i to 4i + 3 of each of the 16 rows, row after row. Lane r of each vector belongs to row r.
struct WGroup {
  alignas(64) int8_t codes[8][4 * kTileRows];
  Vec scales[2], leasts[2];  // by_16: [0] of the first 16 numbers, [1] of the second 16; else only [0], of all 32
};
static_assert(8 * sizeof(XGroup) == kInt8StretchBytes && 8 * sizeof(WGroup) == kInt8StretchBytes);
// The groups of 16 rows are ordered in memory by group, then by stretch: group g of stretch s stands at [g * stretches + s].

/// Configures this thread's tiles for the lifetime of the object. depth: the products of a sum, 32 or 16.
struct Int8TileState {
  explicit Int8TileState(int depth) {
    struct alignas(64) {
      uint8_t palette = 1, start = 0, zero[14] = {};
      uint16_t row_bytes[16] = {};
      uint8_t rows[16] = {};
    } config;
    const auto set = [&](int tile, int rows, int bytes) {
      config.rows[tile] = static_cast<uint8_t>(rows), config.row_bytes[tile] = static_cast<uint16_t>(bytes);
    };
    for (int sums = 0; sums < 4; ++sums) set(sums, kTileRows, 4 * kTileRows);
    for (const int half : {0, 1}) set(4 + half, kTileRows, depth), set(6 + half, depth / 4, 4 * kTileRows);  // x, w
    asm volatile("" ::"r"(&config) : "memory");
    _tile_loadconfig(&config);
  }
  ~Int8TileState() { _tile_release(); }
};

/// Begins the sums over a group, or over its half kHalf, in the tile 2·kParity + kHalf. kParity: whether the step (see `step`) is even or odd.
template <int kParity, int kHalf>
inline __attribute__((always_inline)) void begin_sums(const int8_t* x, const int8_t* w) {
  if constexpr (kHalf == 0) {
    _tile_loadd(4, x, 32);
    _tile_loadd(6, w, 4 * kTileRows);
  } else {
    _tile_loadd(5, x, 32);
    _tile_loadd(7, w, 4 * kTileRows);
  }
  // The intrinsics take only literal numbers of tiles.
  if constexpr (kParity == 0 && kHalf == 0) {
    _tile_zero(0);
    _tile_dpbssd(0, 4, 6);
  } else if constexpr (kParity == 0) {
    _tile_zero(1);
    _tile_dpbssd(1, 5, 7);
  } else if constexpr (kHalf == 0) {
    _tile_zero(2);
    _tile_dpbssd(2, 4, 6);
  } else {
    _tile_zero(3);
    _tile_dpbssd(3, 5, 7);
  }
}
/// c (rows of x, rows of w) = the sums that begin_sums<kParity, kHalf> began.
template <int kParity, int kHalf>
inline __attribute__((always_inline)) void end_sums(VecInt (&c)[kTileRows]) {
  if constexpr (kParity == 0 && kHalf == 0)
    _tile_stored(0, c, 4 * kTileRows);
  else if constexpr (kParity == 0)
    _tile_stored(1, c, 4 * kTileRows);
  else if constexpr (kHalf == 0)
    _tile_stored(2, c, 4 * kTileRows);
  else
    _tile_stored(3, c, 4 * kTileRows);
}

/// The scales for add_group, which adds to chains[r] the products of one group of row r of x with 16 rows of w, given their integer sums c.
struct GroupScales {
  Vec w, least;
  const Vec &x, &sums;
};
template <bool kProducts, bool kLeasts>
inline __attribute__((always_inline)) void add_group(const VecInt (&c)[kTileRows], const GroupScales& s,
                                                     Vec (&chains)[kTileRows]) {
#pragma GCC unroll 16
  for (int r = 0; r < kTileRows; ++r) {
    if constexpr (kProducts) chains[r] = fma(__builtin_convertvector(c[r], Vec), s.w * splat(s.x[r]), chains[r]);
    if constexpr (kLeasts) chains[r] = fma(s.least, splat(s.sums[r]), chains[r]);
  }
}

/// One step takes one group of one stretch: it scales the sums that were fetched before and adds them to the group's chains. It also begins the
/// sums of the step after the next and fetches those of the next step, so that neither the tile unit nor the vector units wait for the other.
template <bool kBy16, bool kLeasts, int kParity>
inline __attribute__((always_inline)) void step(const XGroup* x, const WGroup* w, bool begins, bool ends,
                                                VecInt (&c)[2][kBy16 ? 2 : 1][kTileRows], Vec (&chains)[kTileRows]) {
  if (begins) {
    begin_sums<kParity, 0>(x[2].codes[0], w[2].codes[0]);
    if constexpr (kBy16) begin_sums<kParity, 1>(x[2].codes[0] + 16, w[2].codes[4]);
  }
  if (ends) {
    end_sums<1 - kParity, 0>(c[1 - kParity][0]);
    if constexpr (kBy16) end_sums<1 - kParity, 1>(c[1 - kParity][1]);
  }
  if constexpr (kBy16) {
    const GroupScales first{w->scales[0], w->leasts[0], x->scales, x->sums_of_16[0]};
    const GroupScales second{w->scales[1], w->leasts[1], x->scales, x->sums_of_16[1]};
    add_group<true, false>(c[kParity][0], first, chains);
    add_group<true, false>(c[kParity][1], second, chains);
    add_group<false, kLeasts>(c[kParity][0], first, chains);
    add_group<false, kLeasts>(c[kParity][0], second, chains);
  } else {
    const GroupScales all{w->scales[0], w->leasts[0], x->scales, x->sums};
    add_group<true, kLeasts>(c[kParity][0], all, chains);
  }
}

/// sums (16 rows of x, 16 rows of w; row stride `stride`) = the products of the rows.
template <bool kBy16, bool kLeasts>
void multiply_tiles(const XGroup* x, const WGroup* w, int64_t stretches, float* sums, int64_t stride) {
  alignas(64) Vec of_groups[8][kTileRows];
  alignas(64) VecInt c[2][kBy16 ? 2 : 1][kTileRows];
  asm volatile("" ::: "memory");  // a compiler barrier: GCC 12's intrinsics do not say that the unit reads memory
  Vec chains[kTileRows];
#pragma GCC unroll 16
  for (int r = 0; r < kTileRows; ++r) chains[r] = splat(0.0f);
  Vec(*to)[kTileRows] = of_groups;
  int64_t left = stretches;  // stretches of this group that are still to come
  const auto end_of_step = [&]() __attribute__((always_inline)) {
    if (--left > 0) return;
#pragma GCC unroll 16
    for (int r = 0; r < kTileRows; ++r) (*to)[r] = chains[r], chains[r] = splat(0.0f);
    ++to;
    left = stretches;
  };
  begin_sums<0, 0>(x[0].codes[0], w[0].codes[0]);
  if constexpr (kBy16) begin_sums<0, 1>(x[0].codes[0] + 16, w[0].codes[4]);
  begin_sums<1, 0>(x[1].codes[0], w[1].codes[0]);
  if constexpr (kBy16) begin_sums<1, 1>(x[1].codes[0] + 16, w[1].codes[4]);
  end_sums<0, 0>(c[0][0]);
  if constexpr (kBy16) end_sums<0, 1>(c[0][1]);
  for (int64_t t = 8 * stretches; t > 0; t -= 2, x += 2, w += 2) {
    step<kBy16, kLeasts, 0>(x, w, t > 2, true, c, chains);
    end_of_step();
    step<kBy16, kLeasts, 1>(x + 1, w + 1, t > 2, t > 2, c, chains);
    end_of_step();
  }
  for (int r = 0; r < kTileRows; ++r) {  // in the order of sum_of_chains
    const auto pair = [&](int g) { return of_groups[g][r] + of_groups[g + 4][r]; };
    store(sums + r * stride, (pair(0) + pair(2)) + (pair(1) + pair(3)));
  }
}

/// Writes one stretch of 16 rows of w, unpacked to `rows` and `scales`, to its 8 groups, which stand `stretches` apart in `to`.
inline void arrange(const Stretch (&rows)[kTileRows], const Scales (&scales)[kTileRows], bool by_16, WGroup* to,
                    int64_t stretches) {
  Vec v[kTileRows];
  const auto transposed = [&](auto of_row, auto put) {
    for (int r = 0; r < kTileRows; ++r) v[r] = (Vec)of_row(r);
    transpose(v);
    for (int i = 0; i < kTileRows; ++i) put(i, v[i]);
  };
  const auto put_codes = [&](int odd, int from) {  // dword 4l + i of a row: the i-th four codes of group 2l + odd
    return
        [=](int i, Vec fours) { __builtin_memcpy(to[(i / 4 * 2 + odd) * stretches].codes[from + i % 4], &fours, 64); };
  };
  transposed([&](int r) { return rows[r].j0.first; }, put_codes(0, 0));
  transposed([&](int r) { return rows[r].j0.second; }, put_codes(0, 4));
  transposed([&](int r) { return rows[r].j1.first; }, put_codes(1, 0));
  transposed([&](int r) { return rows[r].j1.second; }, put_codes(1, 4));
  for (int half = 0; half < (by_16 ? 2 : 1); ++half) {
    const auto both = [&](int r) {
      return __builtin_shufflevector(scales[r].of[half], scales[r].leasts[half], 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11,
                                     12, 13, 14, 15);
    };
    transposed(both, [&](int i, Vec of_rows) {
      WGroup& group = to[i % 8 * stretches];
      (i < 8 ? group.scales : group.leasts)[half] = of_rows;
    });
  }
}

}  // namespace
}  // namespace tern::TERN_ISA_NAMESPACE

#endif
