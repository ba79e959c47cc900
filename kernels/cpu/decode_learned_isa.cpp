// LC4, LC3, LC2: layouts in kernels/cpu/learned_codes.h.

#include "kernels/cpu/decode_impl.h"

namespace tern::TERN_ISA_NAMESPACE {
namespace {

/// The table of a block as floats, its levels again behind them up to 16, and what multiplies them.
struct Codebook {
  alignas(64) float table[16];
  float scale;
};
/// 16 integers as floats: written out, as the compiler takes them one by one.
inline void widen_16(const int8_t* from, float* to) {
#if defined(__AVX512F__)
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  store(to, floats_of((VecInt)_mm512_maskz_cvtepi8_epi32(0xffff, bytes)));
#elif defined(__AVX2__)
  for (int i = 0; i < 16; i += 8) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + i));
    store(to + i, floats_of((VecInt)_mm256_cvtepi8_epi32(bytes)));
  }
#else
  for (int i = 0; i < 16; ++i) to[i] = static_cast<float>(from[i]);
#endif
}
template <int kLevels>
inline Codebook codebook_of(uint8_t byte, const RowCodebook& row) {
  Codebook c;
  int8_t table[16];
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += kLevels) __builtin_memcpy(table + i, row.tables + (byte & 3) * kLevels, kLevels);
  widen_16(table, c.table);
  c.scale = learned_scale(byte, row);
  return c;
}

/// table[code] of codes below 16.
inline Vec look_up(const Codebook& c, VecInt codes) {
#if defined(__AVX512F__)
  return (Vec)_mm512_maskz_permutexvar_ps(0xffff, (__m512i)codes, load(c.table));
#elif defined(__AVX2__)
  const Vec low = _mm256_permutevar8x32_ps(load(c.table), (__m256i)codes);
  const Vec high = _mm256_permutevar8x32_ps(load(c.table + 8), (__m256i)codes);
  return select(codes > 7, high, low);
#else
  Vec v;
  for (int i = 0; i < kLanes; ++i) v[i] = c.table[codes[i]];
  return v;
#endif
}

/// Codes n to n + kLanes - 1 of the 32 pairs in 8 bytes.
inline VecInt pairs_from(const uint8_t* q, int n) {
#if defined(__AVX512F__)
  const __m512i twice = _mm512_maskz_cvtepu8_epi32(0xffff, _mm_set1_epi64x(number_at<int64_t>(q)));
  const VecUint by = {0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2, 2, 2, 2};
  return (VecInt)((VecUint)twice >> (by + static_cast<uint32_t>(n / 4)) & 3u);
#else
  return bytes_at(q + n % 8) >> n / 8 * 2 & 3;
#endif
}

template <int kLevels, int kBytes, class Codes>
inline void decode(const uint8_t* b, int64_t count, const RowCodebook& row, float* __restrict out, Codes codes) {
  for (int64_t n = 0; n < count; ++n, b += kBytes, out += 32) {
    const Codebook c = codebook_of<kLevels>(b[0], row);
    for (int i = 0; i < 32; i += kLanes) store(out + i, splat(c.scale) * look_up(c, codes(b + 1, i)));
  }
}

}  // namespace

void decode_lc4(const uint8_t* b, int64_t count, const RowCodebook& row, float* __restrict out) {
  for (int64_t n = 0; n < count; ++n, b += 17, out += 32) {
    const Codebook c = codebook_of<16>(b[0], row);
    look_up_nibbles(c.table, b + 1, c.scale, out);
  }
}

void decode_lc3(const uint8_t* b, int64_t count, const RowCodebook& row, float* __restrict out) {
  decode<8, 13>(b, count, row, out, [](const uint8_t* q, int i) {
    return pairs_from(q, i) | bits_from(number_at<uint32_t>(q + 8), i) << 2;
  });
}

void decode_lc2(const uint8_t* b, int64_t count, const RowCodebook& row, float* __restrict out) {
  decode<4, 9>(b, count, row, out, pairs_from);
}

}  // namespace tern::TERN_ISA_NAMESPACE
