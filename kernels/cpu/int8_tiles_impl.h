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
/// 256 neighbours of 16 rows of x, rounded; behind the last row and the rows' end zeros. Lane r of a vector is of row r.
struct XStretch {
  alignas(64) int8_t codes[8][kTileRows][32];  // of each group
  Vec scales[8], sums[8], sums_of_16[2][8];    // as in Rounded
};
/// 256 neighbours of 16 rows of w. codes: of each group, fours of neighbours of all rows side by side. Lane r is of row r.
struct WStretch {
  alignas(64) int8_t codes[8][8][4 * kTileRows];
  Vec scales[2][8], leasts[2][8];  // by_16: of first and second sixteens; else the first alone
};
static_assert(sizeof(XStretch) == kInt8StretchBytes && sizeof(WStretch) == kInt8StretchBytes);

/// The tile state of this thread, while this lives. depth: neighbours of a sum, 32 or 16.
struct Int8TileState {
  explicit Int8TileState(int depth) {
    struct alignas(64) {
      uint8_t palette = 1, start = 0, zero[14] = {};
      uint16_t row_bytes[16] = {};
      uint8_t rows[16] = {};
    } config;
    config.rows[0] = kTileRows, config.row_bytes[0] = 64;                            // sums
    config.rows[1] = kTileRows, config.row_bytes[1] = static_cast<uint16_t>(depth);  // x
    config.rows[2] = static_cast<uint8_t>(depth / 4), config.row_bytes[2] = 64;      // w
    asm volatile("" ::"r"(&config) : "memory");
    _tile_loadconfig(&config);
  }
  ~Int8TileState() { _tile_release(); }
};

/// Sums of one group, or of its half: c (rows of x, rows of w).
inline __attribute__((always_inline)) void tile_sums(const int8_t* x, const int8_t* w, VecInt (&c)[kTileRows]) {
  _tile_zero(0);
  _tile_loadd(1, x, 32);
  _tile_loadd(2, w, 64);
  _tile_dpbssd(0, 1, 2);
  _tile_stored(0, c, 64);
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
    if constexpr (kProducts) chains[r] = chains[r] + __builtin_convertvector(c[r], Vec) * (s.w * splat(s.x[r]));
    if constexpr (kLeasts) chains[r] = chains[r] + s.least * splat(s.sums[r]);
  }
}

/// sums (16 rows of x; stride): the products with 16 rows of w.
template <bool kBy16, bool kLeasts>
void multiply_tiles(const XStretch* x, const WStretch* w, int64_t stretches, float* sums, int64_t stride) {
  constexpr int kHalves = kBy16 ? 2 : 1;
  alignas(64) Vec of_groups[8][kTileRows];
  alignas(64) VecInt c[2][kHalves][kTileRows];
  asm volatile("" ::: "memory");  // what was stored is in memory: GCC 12's intrinsics do not say that the unit reads it
  const auto start = [&](int64_t s, int64_t g) {
    tile_sums(x[s].codes[g][0], w[s].codes[g][0], c[s % 2][0]);
    if constexpr (kBy16) tile_sums(x[s].codes[g][0] + 16, w[s].codes[g][4], c[s % 2][1]);
  };
  for (int64_t g = 0; g < 8; ++g) {
    Vec chains[kTileRows] = {};
    start(0, g);
    for (int64_t s = 0; s < stretches; ++s) {
      if (s + 1 < stretches) start(s + 1, g);  // the unit works on the next ones meanwhile
      const XStretch& of_x = x[s];
      const WStretch& of_w = w[s];
      if constexpr (kBy16) {
        const GroupScales first{of_w.scales[0][g], of_w.leasts[0][g], of_x.scales[g], of_x.sums_of_16[0][g]};
        const GroupScales second{of_w.scales[1][g], of_w.leasts[1][g], of_x.scales[g], of_x.sums_of_16[1][g]};
        add_group<true, false>(c[s % 2][0], first, chains);
        add_group<true, false>(c[s % 2][1], second, chains);
        if constexpr (kLeasts)
          add_group<false, true>(c[0][0], first, chains), add_group<false, true>(c[0][0], second, chains);
      } else {
        const GroupScales all{of_w.scales[0][g], of_w.leasts[0][g], of_x.scales[g], of_x.sums[g]};
        add_group<true, kLeasts>(c[s % 2][0], all, chains);
      }
    }
    __builtin_memcpy(of_groups[g], chains, sizeof chains);
  }
  for (int r = 0; r < kTileRows; ++r) {  // sum_of_chains
    const auto pair = [&](int g) { return of_groups[g][r] + of_groups[g + 4][r]; };
    store(sums + r * stride, (pair(0) + pair(2)) + (pair(1) + pair(3)));
  }
}

/// 16 rows of one stretch of w, whose codes and scales were unpacked, to `to`.
inline void arrange(const Stretch (&rows)[kTileRows], const Scales (&scales)[kTileRows], bool by_16, WStretch& to) {
  Vec v[kTileRows];
  const auto transposed = [&](auto of_row, auto put) {
    for (int r = 0; r < kTileRows; ++r) v[r] = (Vec)of_row(r);
    transpose(v);
    for (int i = 0; i < kTileRows; ++i) put(i, v[i]);
  };
  const auto put_codes = [&](int odd, int from) {  // dword 4l + i of a row: its i-th four of group 2l + odd
    return
        [&to, odd, from](int i, Vec fours) { __builtin_memcpy(to.codes[i / 4 * 2 + odd][from + i % 4], &fours, 64); };
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
    transposed(both, [&](int i, Vec of_rows) { (i < 8 ? to.scales : to.leasts)[half][i % 8] = of_rows; });
  }
}

}  // namespace
}  // namespace tern::TERN_ISA_NAMESPACE

#endif
