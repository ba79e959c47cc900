#pragma once
// What the decoders of weight types share. Only for decode_*_isa.cpp files, which are compiled once per instruction set:
// plain loops of fixed length, which the compiler turns into that set's vectors. Every product, sum and difference is
// rounded once, as the loops write it, so all sets give the same bits.

#include <cstdint>

#include "kernels/cpu/lanes_impl.h"

namespace tern::TERN_ISA_NAMESPACE {

#define TERN_WEIGHT_TYPE(id, ...) void decode_##id(const uint8_t* blocks, int64_t count, float* out);
#include "base/weight_types.def"
#undef TERN_WEIGHT_TYPE

namespace {

template <class T>
inline T number_at(const uint8_t* at) {
  T x;
  __builtin_memcpy(&x, at, sizeof x);
  return x;
}

/// IEEE half precision, without a branch: the exponent is set right by a multiplication, exact for subnormals too.
inline float half_at(const uint8_t* at) {
  const uint32_t h = number_at<uint16_t>(at), shifted = (h & 0x7fffu) << 13;
  float x;
  __builtin_memcpy(&x, &shifted, 4);
  x *= 0x1p112f;
  uint32_t bits;
  __builtin_memcpy(&bits, &x, 4);
  if (shifted >= 0x0f800000u) bits = shifted | 0x7f800000u;  // infinite or NaN
  bits |= (h & 0x8000u) << 16;
  __builtin_memcpy(&x, &bits, 4);
  return x;
}
inline Vec halves(VecU16 x) {
#if defined(__AVX512F__)
  return (Vec)_mm512_maskz_cvtph_ps(0xffff, (__m256i)x);
#else
  const VecUint h = __builtin_convertvector(x, VecUint), shifted = (h & 0x7fffu) << 13;
  const VecUint special = (VecUint)(shifted >= 0x0f800000u);
  const VecUint finite = (VecUint)((Vec)shifted * splat(0x1p112f));
  return (Vec)((special & (shifted | 0x7f800000u)) | (~special & finite) | (h & 0x8000u) << 16);
#endif
}

/// y = scale·table[code] of the low nibbles of 16 bytes, then of the high ones.
inline void look_up_nibbles(const float* table, const uint8_t* q, float scale, float* y) {
#if defined(__AVX512F__)
  const __m512i codes = _mm512_maskz_cvtepu8_epi32(0xffff, _mm_loadu_si128(reinterpret_cast<const __m128i*>(q)));
  const Vec numbers = load(table);  // vpermps reads the four lowest bits of a place
  store(y, splat(scale) * (Vec)_mm512_maskz_permutexvar_ps(0xffff, codes, numbers));
  const __m512i high = (__m512i)((VecUint)codes >> 4);
  store(y + 16, splat(scale) * (Vec)_mm512_maskz_permutexvar_ps(0xffff, high, numbers));
#elif defined(__AVX2__)
  for (int i = 0; i < 16; i += 8) {
    const __m256i codes = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(q + i)));
    for (int part = 0; part < 2; ++part) {
      const VecInt at = (VecInt)codes >> 4 * part & 15;
      const Vec low = _mm256_permutevar8x32_ps(load(table), (__m256i)at);
      const Vec high = _mm256_permutevar8x32_ps(load(table + 8), (__m256i)at);
      store(y + 16 * part + i, splat(scale) * select(at > 7, high, low));
    }
  }
#else
  for (int i = 0; i < 16; ++i) y[i] = scale * table[q[i] & 15];
  for (int i = 0; i < 16; ++i) y[16 + i] = scale * table[q[i] >> 4];
#endif
}

}  // namespace
}  // namespace tern::TERN_ISA_NAMESPACE
