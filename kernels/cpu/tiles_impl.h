#pragma once
// The tile unit (AMX-bf16), for *_isa.cpp files: configuration, packing, and the one product that everything ends in.
//
// A tile holds 16 rows of 64 bytes. tdpbf16ps adds to a tile C (16 × 16 floats) the product of A (16 rows × 32 bf16)
// and B (16 pairs of rows × 16 columns × 2 bf16): each element one sum in a fixed order, whatever the other rows and
// columns hold. Subnormals count as zero.
//
// Packed left factor: strips of 16 rows, each a row of tiles of 16 × 32 elements (1 KiB), rows beyond the last zero.
// Packed right factor: panels of 32 columns, each pairs of rows side by side, 128 bytes per pair: two tiles alternate
// row by row and share their 2 KiB. Both are padded with zeros to 32 elements of the summed dimension.

#if defined(__AMX_BF16__)

#include "kernels/cpu/small_gemm_impl.h"
#include "kernels/cpu/tile_matmul_table.h"

namespace tern::TERN_ISA_NAMESPACE {
namespace {

constexpr int64_t kTileElements = kTileRows16 * kTileDepth;  // of bf16

/// The tile state belongs to the thread: configured here for as long as this lives, then given back, so that a switch
/// of threads has nothing to save.
struct Tiles {
  Tiles() {
    struct alignas(64) {
      uint8_t palette = 1, start = 0, zero[14] = {};
      uint16_t row_bytes[16] = {};
      uint8_t rows[16] = {};
    } config;
    for (int i = 0; i < 8; ++i) config.row_bytes[i] = 64, config.rows[i] = 16;
    _tile_loadconfig(&config);
  }
  ~Tiles() { _tile_release(); }
};

inline int64_t whole(int64_t count, int64_t unit) { return (count + unit - 1) / unit * unit; }

/// c (32 or 16 rows, 32 columns, stride 32) = or += two strips (or one) times a panel, `steps` tiles deep.
template <bool kTwoStrips, bool kAdd = false>
inline __attribute__((always_inline)) void tile_block(const bf16* a, int64_t strip, const bf16* b, int64_t steps,
                                                      float* c) {
  constexpr int64_t kHalf = 16, kStride = kTilePanel * 4;
  if constexpr (kAdd) {
    _tile_loadd(0, c, kStride);
    _tile_loadd(1, c + kHalf, kStride);
  } else {
    _tile_zero(0);
    _tile_zero(1);
  }
  if constexpr (kTwoStrips && kAdd) {
    _tile_loadd(2, c + kHalf * kTilePanel, kStride);
    _tile_loadd(3, c + kHalf * kTilePanel + kHalf, kStride);
  } else if constexpr (kTwoStrips) {
    _tile_zero(2);
    _tile_zero(3);
  }
  for (int64_t s = 0; s < steps; ++s, a += kTileElements, b += 2 * kTileElements) {
    _tile_loadd(6, b, 128);
    _tile_loadd(7, b + 2 * kHalf, 128);
    _tile_loadd(4, a, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    if constexpr (kTwoStrips) {
      _tile_loadd(5, a + strip, 64);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, c, kStride);
  _tile_stored(1, c + kHalf, kStride);
  if constexpr (kTwoStrips) {
    _tile_stored(2, c + kHalf * kTilePanel, kStride);
    _tile_stored(3, c + kHalf * kTilePanel + kHalf, kStride);
  }
}

/// 16 dwords of the first `elements` bf16, zeros behind.
inline VecUint load_dwords(const bf16* p, int64_t elements) {
  const __mmask32 mask = elements >= 32 ? ~__mmask32{0} : (__mmask32{1} << elements) - 1;
  return (VecUint)_mm512_maskz_loadu_epi16(mask, p);
}
inline void store_line(bf16* p, VecUint v) { __builtin_memcpy(p, &v, sizeof v); }
/// Elements of two rows side by side: (low[i], high[i]).
inline VecUint pairs(Vec low, Vec high) { return (VecUint)low >> 16 | ((VecUint)high & 0xffff0000u); }

/// Two vectors to bf16, to nearest even, `low` first; subnormal results become zero. By asm: clang 16 crashes when it
/// optimizes the intrinsics' bf16 vectors.
inline VecUint narrow_two(Vec low, Vec high) {
  VecUint out;
  asm("vcvtne2ps2bf16 %2, %1, %0" : "=v"(out) : "v"(high), "v"(low));
  return out;
}
/// 16 low halves and 16 high ones become 16 pairs.
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

/// Columns [0, columns) of y (depth, …; stride), transposed, as a packed left factor.
inline void pack_left_transposed(const bf16* y, int64_t stride, int64_t columns, int64_t depth, bf16* out) {
  for (int64_t c = 0; c < columns; c += kTileRows16) {
    const int64_t width = columns - c < kTileRows16 ? columns - c : kTileRows16;
    for (int64_t d = 0; d < depth; d += kTileDepth, out += kTileElements) {
      Vec v[16];
      for (int64_t p = 0; p < 16; ++p) {
        const int64_t low = d + 2 * p;
        const bf16* at = y + low * stride + c;
        v[p] = (Vec)pairs(low < depth ? load_some(at, width) : Vec{},
                          low + 1 < depth ? load_some(at + stride, width) : Vec{});
      }
      transpose(v);
      for (int64_t r = 0; r < kTileRows16; ++r) store_line(out + r * kTileDepth, (VecUint)v[r]);
    }
  }
}

/// One panel of the right factor from w (depth, …; stride): 32 columns, or fewer.
inline void pack_right(const bf16* w, int64_t stride, int64_t columns, int64_t depth, bf16* out) {
  const int64_t left = columns < 16 ? columns : 16, right = columns - left;
  for (int64_t d = 0; d < whole(depth, kTileDepth); d += 2, out += 2 * kTilePanel) {
    const bf16* at = w + d * stride;
    const bool low = d < depth, high = d + 1 < depth;
    store_line(out, pairs(low ? load_some(at, left) : Vec{}, high ? load_some(at + stride, left) : Vec{}));
    store_line(out + kTilePanel, pairs(low && right > 0 ? load_some(at + 16, right) : Vec{},
                                       high && right > 0 ? load_some(at + stride + 16, right) : Vec{}));
  }
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
