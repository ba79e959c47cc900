#pragma once
// The tile unit (AMX-bf16), for *_isa.cpp files: its configuration, packing, and tile_block, the product that all others are made of.
// AVX512-BF16 without the unit has the packing and tile_block too, by vectors.
//
// A tile holds 16 rows of 64 bytes. tdpbf16ps adds to a tile C (16 × 16 floats) the product of A (16 rows × 32 bf16)
// and B (16 pairs of rows × 16 columns × 2 bf16): each element one sum in a fixed order, whatever the other rows and
// columns hold. Subnormals count as zero.
//
// Packed left factor: strips of 16 rows, each a row of tiles of 16 × 32 elements (1 KiB), rows beyond the last zero.
// Packed right factor: panels of 32 columns. A panel holds pairs of rows, interleaved column by column, 128 bytes per pair; its two tiles
// alternate pair by pair and share 2 KiB. Both factors are padded with zeros to 32 elements of the summed dimension.

#if defined(__AVX512BF16__)

#include "base/rounding.h"
#include "kernels/cpu/small_gemm_impl.h"
#include "kernels/cpu/tile_matmul_table.h"

namespace tern::TERN_ISA_NAMESPACE {
namespace {

constexpr int64_t kTileElements = kTileRows16 * kTileDepth;  // of bf16

/// A compiler barrier: what was stored before is in memory from here on. GCC 12's intrinsics do not say that a tile load reads memory; for
/// the configuration they name only 8 bytes of 64.
inline __attribute__((always_inline)) void finish_stores() { asm volatile("" ::: "memory"); }

#if defined(__AMX_BF16__)

/// Configures this thread's tiles for the lifetime of the object, then releases them, so that a switch of threads has no tile state
/// to save.
struct Tiles {
  /// `columns`: the width of tiles 0 and 1 (sums) and of tile 6 (a right factor); all others are 16 columns wide.
  explicit Tiles(int64_t columns = 16) {
    struct alignas(64) {
      uint8_t palette = 1, start = 0, zero[14] = {};
      uint16_t row_bytes[16] = {};
      uint8_t rows[16] = {};
    } config;
    for (int i = 0; i < 8; ++i) config.row_bytes[i] = 64, config.rows[i] = 16;
    config.row_bytes[0] = config.row_bytes[1] = config.row_bytes[6] = static_cast<uint16_t>(columns * 4);
    asm volatile("" ::"r"(&config) : "memory");
    _tile_loadconfig(&config);
  }
  ~Tiles() { _tile_release(); }
};

/// c (32 or 16 rows, 32 columns; row stride c_stride) = (kAdd: +=) two strips (or one) times a panel, `steps` tiles deep. After each step
/// meanwhile(step) may keep the vector units busy: the tile unit works beside them, and out-of-order execution does not reach
/// across a whole block.
/// Streaming loads read the left factor (with kStreamRight the right one), so that the other factor stays in L1.
template <bool kTwoStrips, bool kAdd = false, bool kStreamRight = false, class Meanwhile>
inline __attribute__((always_inline)) void tile_block(const bf16* a, int64_t strip, const bf16* b, int64_t steps,
                                                      float* c, int64_t c_stride, Meanwhile meanwhile) {
  constexpr int64_t kHalf = 16;
  const int64_t bytes = c_stride * 4;
  finish_stores();
  if constexpr (kAdd) {
    _tile_loadd(0, c, bytes);
    _tile_loadd(1, c + kHalf, bytes);
  } else {
    _tile_zero(0);
    _tile_zero(1);
  }
  if constexpr (kTwoStrips && kAdd) {
    _tile_loadd(2, c + kHalf * c_stride, bytes);
    _tile_loadd(3, c + kHalf * c_stride + kHalf, bytes);
  } else if constexpr (kTwoStrips) {
    _tile_zero(2);
    _tile_zero(3);
  }
  for (int64_t s = 0; s < steps; ++s, a += kTileElements, b += 2 * kTileElements) {
    // Streaming loads are 1.4 times as fast where the factor that stays is 32–48 KiB.
    if constexpr (kStreamRight) {
      _tile_stream_loadd(6, b, 128);
      _tile_stream_loadd(7, b + 2 * kHalf, 128);
      _tile_loadd(4, a, 64);
    } else {
      _tile_loadd(6, b, 128);
      _tile_loadd(7, b + 2 * kHalf, 128);
      _tile_stream_loadd(4, a, 64);
    }
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    if constexpr (kTwoStrips) {
      if constexpr (kStreamRight)
        _tile_loadd(5, a + strip, 64);
      else
        _tile_stream_loadd(5, a + strip, 64);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
    meanwhile(s);
  }
  _tile_stored(0, c, bytes);
  _tile_stored(1, c + kHalf, bytes);
  if constexpr (kTwoStrips) {
    _tile_stored(2, c + kHalf * c_stride, bytes);
    _tile_stored(3, c + kHalf * c_stride + kHalf, bytes);
  }
}

template <bool kTwoStrips, bool kAdd = false>
inline __attribute__((always_inline)) void tile_block(const bf16* a, int64_t strip, const bf16* b, int64_t steps,
                                                      float* c, int64_t c_stride = kTilePanel) {
  tile_block<kTwoStrips, kAdd, false>(a, strip, b, steps, c, c_stride, [](int64_t) {});
}

#else

/// Without the unit there is nothing to configure.
struct Tiles {
  Tiles() {}
  ~Tiles() {}
};

typedef uint32_t __attribute__((may_alias)) Pair;
/// c + the products of 16 pairs with the pair at p.
inline __attribute__((always_inline)) Vec add_pairs(Vec c, VecUint pairs, const bf16* p) {
  asm("vdpbf16ps %2%{1to16%}, %1, %0" : "+v"(c) : "v"(pairs), "m"(*reinterpret_cast<const Pair*>(p)));
  return c;
}

/// c (16 rows, 16 columns) = (kAdd: +=) a strip times one of a panel's two tiles, which begins at b.
template <bool kAdd>
inline __attribute__((always_inline)) void vector_block(const bf16* a, const bf16* b, int64_t steps, float* c,
                                                        int64_t c_stride) {
  Vec sum[kTileRows16];
#pragma GCC unroll 16
  for (int64_t r = 0; r < kTileRows16; ++r) sum[r] = kAdd ? load(c + r * c_stride) : splat(0.0f);
  for (int64_t s = 0; s < steps; ++s, a += kTileElements - kTileDepth)
    for (int64_t pair = 0; pair < kTileDepth; pair += 2, a += 2, b += 2 * kTileDepth) {
      VecUint right;
      __builtin_memcpy(&right, b, sizeof right);
#pragma GCC unroll 16
      for (int64_t r = 0; r < kTileRows16; ++r) sum[r] = add_pairs(sum[r], right, a + r * kTileDepth);
    }
#pragma GCC unroll 16
  for (int64_t r = 0; r < kTileRows16; ++r) store(c + r * c_stride, sum[r]);
}

/// The same product: each element one sum in order of the pairs, subnormals as zero.
template <bool kTwoStrips, bool kAdd = false, class Meanwhile>
inline __attribute__((always_inline)) void tile_block(const bf16* a, int64_t strip, const bf16* b, int64_t steps,
                                                      float* c, int64_t c_stride, Meanwhile meanwhile) {
  finish_stores();
  for (int64_t half = 0; half < 2; ++half)
    for (int64_t s = 0; s < (kTwoStrips ? 2 : 1); ++s)
      vector_block<kAdd>(a + s * strip, b + half * kTileDepth, steps, c + s * kTileRows16 * c_stride + half * 16,
                         c_stride);
  for (int64_t s = 0; s < steps; ++s) meanwhile(s);
}

template <bool kTwoStrips, bool kAdd = false>
inline __attribute__((always_inline)) void tile_block(const bf16* a, int64_t strip, const bf16* b, int64_t steps,
                                                      float* c, int64_t c_stride = kTilePanel) {
  tile_block<kTwoStrips, kAdd>(a, strip, b, steps, c, c_stride, [](int64_t) {});
}

#endif

/// 16 dwords: the first `elements` bf16 at p, at most 32, then zeros.
inline VecUint load_dwords(const bf16* p, int64_t elements) {
  const __mmask32 mask = elements >= 32 ? ~__mmask32{0} : (__mmask32{1} << elements) - 1;
  return (VecUint)_mm512_maskz_loadu_epi16(mask, p);
}
inline void store_line(bf16* p, VecUint v) { __builtin_memcpy(p, &v, sizeof v); }

/// Rounds two vectors to bf16, to nearest even, `low` first; subnormal results become zero. By asm: clang 16 crashes when it
/// optimizes the intrinsics' bf16 vectors.
inline VecUint narrow_two(Vec low, Vec high) {
  VecUint out;
  asm("vcvtne2ps2bf16 %2, %1, %0" : "=v"(out) : "v"(high), "v"(low));
  return out;
}
/// The 16 bf16 of the lower half and the 16 of the upper half are interleaved to 16 pairs.
inline VecUint interleave_halves(VecUint v) {
  alignas(64) static constexpr uint16_t kOrder[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                                      8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  return (VecUint)_mm512_maskz_permutexvar_epi16(~__mmask32{0}, _mm512_load_si512(kOrder), (__m512i)v);
}

/// Rows [0, rows) of x (stride) as a packed left factor of `padded` rows.
inline void pack_left(const bf16* x, int64_t stride, int64_t padded, int64_t rows, int64_t depth, bf16* out) {
  for (int64_t r0 = 0; r0 < padded; r0 += kTileRows16)
    for (int64_t d = 0; d < depth; d += kTileDepth, out += kTileElements)
      for (int64_t r = 0; r < kTileRows16; ++r)
        store_line(out + r * kTileDepth, r0 + r < rows ? load_dwords(x + (r0 + r) * stride + d, depth - d) : VecUint{});
}

/// Rows d and d + 1 of y (depth, …; row stride `stride`), interleaved column by column, for up to 32 columns. For i < 4, column 8q + i is
/// dword 4q + i of `low`, and column 8q + 4 + i is dword 4q + i of `high`.
struct RowPair {
  VecUint low, high;
};
inline RowPair pair_rows(VecUint a, VecUint b) {
  constexpr __mmask32 kAll = ~__mmask32{0};
  return {(VecUint)_mm512_maskz_unpacklo_epi16(kAll, (__m512i)a, (__m512i)b),
          (VecUint)_mm512_maskz_unpackhi_epi16(kAll, (__m512i)a, (__m512i)b)};
}
inline RowPair load_row_pair(const bf16* y, int64_t stride, int64_t columns, int64_t d, int64_t depth) {
  const bf16* at = y + d * stride;
  return pair_rows(d < depth ? load_dwords(at, columns) : VecUint{},
                   d + 1 < depth ? load_dwords(at + stride, columns) : VecUint{});
}
/// Stores the pair of rows as 32 columns of a panel.
inline void store_row_pair(RowPair rows, bf16* out) {
  alignas(64) static constexpr uint32_t kOrder[32] = {0, 1, 2,  3,  16, 17, 18, 19, 4,  5,  6,  7,  20, 21, 22, 23,
                                                      8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31};
  const __m512i first = _mm512_load_si512(kOrder), second = _mm512_load_si512(kOrder + 16);
  store_line(out, (VecUint)_mm512_permutex2var_epi32((__m512i)rows.low, first, (__m512i)rows.high));
  store_line(out + kTilePanel, (VecUint)_mm512_permutex2var_epi32((__m512i)rows.low, second, (__m512i)rows.high));
}

/// Columns [0, columns) of y (depth, …; stride), transposed, as a packed left factor.
inline void pack_left_transposed(const bf16* y, int64_t stride, int64_t columns, int64_t depth, bf16* out) {
  const int64_t strip = round_up(depth, kTileDepth) * kTileRows16;
  for (int64_t c = 0; c < columns; c += 2 * kTileRows16, out += 2 * strip)
    for (int64_t d = 0; d < depth; d += kTileDepth) {
      Vec low[16], high[16];
      for (int64_t p = 0; p < 16; ++p) {
        const RowPair rows = load_row_pair(y + c, stride, columns - c, d + 2 * p, depth);
        low[p] = (Vec)rows.low, high[p] = (Vec)rows.high;
      }
      transpose(low);
      transpose(high);
      bf16* tile = out + d * kTileRows16;
      for (int64_t r = 0; r < 16; ++r) {
        const int64_t column = r / 4 * 8 + r % 4;  // low[r] has this column, high[r] the column 4 behind it
        bf16* line = tile + (column / 16 * strip) + column % 16 * kTileDepth;
        if (column / 16 * 16 >= columns - c) continue;  // no such strip
        store_line(line, (VecUint)low[r]);
        store_line(line + 4 * kTileDepth, (VecUint)high[r]);
      }
    }
}

/// One panel of the right factor from w (depth, …; stride): 32 columns, or fewer.
inline void pack_right(const bf16* w, int64_t stride, int64_t columns, int64_t depth, bf16* out) {
  for (int64_t d = 0; d < round_up(depth, kTileDepth); d += 2, out += 2 * kTilePanel)
    store_row_pair(load_row_pair(w, stride, columns, d, depth), out);
}

/// One panel of the right factor from rows of w (columns, depth; stride), that is from wᵀ.
inline void pack_right_transposed(const bf16* w, int64_t stride, int64_t columns, int64_t depth, bf16* out) {
  for (int64_t d = 0; d < depth; d += kTileDepth, out += kTilePanel * kTileDepth)
    for (int64_t half = 0; half < 2; ++half) {
      Vec v[16];
      for (int64_t r = 0; r < 16; ++r) {
        const int64_t c = half * 16 + r;
        v[r] = (Vec)(c < columns ? load_dwords(w + c * stride + d, depth - d) : VecUint{});
      }
      transpose(v);
      for (int64_t p = 0; p < 16; ++p) store_line(out + p * 2 * kTilePanel + half * kTilePanel, (VecUint)v[p]);
    }
}

}  // namespace
}  // namespace tern::TERN_ISA_NAMESPACE

#endif
