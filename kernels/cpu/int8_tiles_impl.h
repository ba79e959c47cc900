#pragma once
// Integer products of coded weights on the tile unit (AMX-int8; coded_int8.h says which numbers). Only for *_isa.cpp files.
// A tile of sums is 16 rows of x by 16 rows of w, over one group of 32 neighbours or, for types with a scale for each 16, over
// half of one: scales differ from group to group. Sums are exact integers; the chains of one group stay in registers for the
// whole row, so a group is taken through all stretches of 256 neighbours before the next.

#if defined(__AMX_INT8__)

#include "kernels/cpu/coded_int8_table.h"
#include "kernels/cpu/row_dots_impl.h"
#include "kernels/cpu/small_gemm_impl.h"

namespace tern::TERN_ISA_NAMESPACE {
namespace {

constexpr int kTileRows = 16;
/// 32 neighbours of 16 rows of x, rounded; behind the last row and the rows' end zeros. Lane r of a vector is of row r.
struct XGroup {
  alignas(64) int8_t codes[kTileRows][32];
  Vec scales, sums, sums_of_16[2];  // as in Rounded
};
/// 32 neighbours of 16 rows of w. codes: fours of neighbours of all rows side by side. Lane r is of row r.
struct WGroup {
  alignas(64) int8_t codes[8][4 * kTileRows];
  Vec scales[2], leasts[2];  // by_16: of first and second sixteens; else the first alone
};
static_assert(8 * sizeof(XGroup) == kInt8StretchBytes && 8 * sizeof(WGroup) == kInt8StretchBytes);
// Of 16 rows the g-th groups of all stretches stand one after the other: that of stretch s at [g * stretches + s].

/// The tile state of this thread, while this lives. depth: neighbours of a sum, 32 or 16.
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

/// Begins the sums of one group, or of its half, in a tile of its own: kParity of the stretch, kHalf of the group.
template <int kParity, int kHalf>
inline __attribute__((always_inline)) void begin_sums(const int8_t* x, const int8_t* w) {
  if constexpr (kHalf == 0) {
    _tile_loadd(4, x, 32);
    _tile_loadd(6, w, 4 * kTileRows);
  } else {
    _tile_loadd(5, x, 32);
    _tile_loadd(7, w, 4 * kTileRows);
  }
  // The intrinsics take names of tiles, not numbers.
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
/// c (rows of x, rows of w) = those sums.
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

/// chains[r] += the products of one group of row r of x with 16 rows of w, from its sums.
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

/// One step: sums of a group that were fetched before are added to its chains. Sums are begun two steps ahead and fetched one ahead,
/// so that neither the unit nor the vectors wait for the other. x, w: of this step; c: of both parities.
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

/// sums (16 rows of x; stride): the products with 16 rows of w.
template <bool kBy16, bool kLeasts>
void multiply_tiles(const XGroup* x, const WGroup* w, int64_t stretches, float* sums, int64_t stride) {
  alignas(64) Vec of_groups[8][kTileRows];
  alignas(64) VecInt c[2][kBy16 ? 2 : 1][kTileRows];
  asm volatile("" ::: "memory");  // what was stored is in memory: GCC 12's intrinsics do not say that the unit reads it
  Vec chains[kTileRows];
#pragma GCC unroll 16
  for (int r = 0; r < kTileRows; ++r) chains[r] = splat(0.0f);
  Vec(*to)[kTileRows] = of_groups;
  int64_t left = stretches;  // of the group
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
  for (int r = 0; r < kTileRows; ++r) {  // sum_of_chains
    const auto pair = [&](int g) { return of_groups[g][r] + of_groups[g + 4][r]; };
    store(sums + r * stride, (pair(0) + pair(2)) + (pair(1) + pair(3)));
  }
}

/// 16 rows of one stretch of w, whose codes and scales were unpacked, to its groups, which are `stretches` apart.
inline void arrange(const Stretch (&rows)[kTileRows], const Scales (&scales)[kTileRows], bool by_16, WGroup* to,
                    int64_t stretches) {
  Vec v[kTileRows];
  const auto transposed = [&](auto of_row, auto put) {
    for (int r = 0; r < kTileRows; ++r) v[r] = (Vec)of_row(r);
    transpose(v);
    for (int i = 0; i < kTileRows; ++i) put(i, v[i]);
  };
  const auto put_codes = [&](int odd, int from) {  // dword 4l + i of a row: its i-th four of group 2l + odd
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
