#pragma once
// What the decoders of weight types share. Only for decode_*_isa.cpp files, which are compiled once per instruction set.
// Each product, sum and difference is rounded by itself, in the order of the format's reference code, so all sets give the same bits.

#include <cstdint>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "kernels/cpu/decode_table.h"
#include "kernels/cpu/lanes_impl.h"
#include "kernels/cpu/learned_codes.h"

namespace tern::TERN_ISA_NAMESPACE {

#define TERN_WEIGHT_TYPE(id, ...) void decode_##id(const uint8_t* blocks, int64_t count, float* out);
#define TERN_LEARNED_WEIGHT_TYPE(id, ...) \
  void decode_##id(const uint8_t* blocks, int64_t count, const RowCodebook&, float* out);
#include "base/weight_types.def"
#undef TERN_WEIGHT_TYPE

namespace {

template <class T>
inline T number_at(const uint8_t* at) {
  T x;
  __builtin_memcpy(&x, at, sizeof x);
  return x;
}

/// 2^(e − 128) for the byte e: half of its E8M0 value, 2^(e − 127). The results for e = 0 and e = 1 are subnormal.
inline float half_power_at(const uint8_t* at) {
  const uint32_t e = *at, bits = e < 2 ? 0x00200000u << e : (e - 1) << 23;
  float x;
  __builtin_memcpy(&x, &bits, 4);
  return x;
}

/// An IEEE half as a float, without a branch: a multiplication corrects the exponent, exactly, for subnormals too.
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
/// half_at, by one instruction where the set has one. (That instruction makes NaNs quiet.)
inline float half(const uint8_t* at) {
#if defined(__AVX512F__)
  return _mm_cvtss_f32(_mm_maskz_cvtph_ps(0xf, _mm_cvtsi32_si128(number_at<uint16_t>(at))));
#elif defined(__F16C__)
  return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(number_at<uint16_t>(at))));
#else
  return half_at(at);
#endif
}
inline Vec halves(VecU16 x) {
#if defined(__AVX512F__)
  return (Vec)_mm512_maskz_cvtph_ps(0xffff, (__m256i)x);
#elif defined(__F16C__)
  return (Vec)_mm256_cvtph_ps((__m128i)x);
#else
  const VecUint h = __builtin_convertvector(x, VecUint), shifted = (h & 0x7fffu) << 13;
  const VecUint special = (VecUint)(shifted >= 0x0f800000u);
  const VecUint finite = (VecUint)((Vec)shifted * splat(0x1p112f));
  return (Vec)((special & (shifted | 0x7f800000u)) | (~special & finite) | (h & 0x8000u) << 16);
#endif
}

/// The signed scale of a block of learned codes, ±(the row's scale · the block's), from the block's first byte
/// (kernels/cpu/learned_codes.h). Without a branch, as branch prediction could not learn the signs.
inline float learned_scale(uint8_t byte, const RowCodebook& row) {
  const float scale = row.scale * kBlockScales[byte >> 2 & 31];
  uint32_t bits;
  __builtin_memcpy(&bits, &scale, 4);
  bits ^= static_cast<uint32_t>(byte & 0x80) << 24;
  float x;
  __builtin_memcpy(&x, &bits, 4);
  return x;
}

/// kLanes unsigned bytes, each widened to 32 bits.
inline VecInt bytes_at(const uint8_t* at) {
#if defined(__AVX512F__)
  return (VecInt)_mm512_maskz_cvtepu8_epi32(0xffff, _mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
#elif defined(__AVX2__)
  return (VecInt)_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(at)));
#elif defined(__SSE2__)
  const __m128i bytes = _mm_cvtsi32_si128(number_at<int32_t>(at)), zero = _mm_setzero_si128();
  return (VecInt)_mm_unpacklo_epi16(_mm_unpacklo_epi8(bytes, zero), zero);
#else
  VecInt v;
  for (int i = 0; i < kLanes; ++i) v[i] = at[i];
  return v;
#endif
}
inline Vec floats_of(VecInt v) {
#if defined(__AVX512F__)
  return (Vec)_mm512_maskz_cvtepi32_ps(0xffff, (__m512i)v);
#else
  return __builtin_convertvector(v, Vec);
#endif
}
/// Bits i to i + kLanes - 1 of `bits`, one in each lane.
inline VecInt bits_from(uint32_t bits, int i) {
  VecUint place;
  for (int lane = 0; lane < kLanes; ++lane) place[lane] = static_cast<uint32_t>(lane);
  return (VecInt)((VecUint)splat_int(static_cast<int32_t>(bits >> i)) >> place & 1u);
}

/// y[i] = scale·code [+ add or − take] for 16 codes; codes(i) gives kLanes codes, from number i on.
template <class Codes>
inline void scaled_16(float scale, float* y, Codes codes) {
  for (int i = 0; i < 16; i += kLanes) store(y + i, splat(scale) * floats_of(codes(i)));
}
template <class Codes>
inline void scaled_16_plus(float scale, float add, float* y, Codes codes) {
  for (int i = 0; i < 16; i += kLanes) store(y + i, splat(scale) * floats_of(codes(i)) + splat(add));
}
template <class Codes>
inline void scaled_16_minus(float scale, float take, float* y, Codes codes) {
  for (int i = 0; i < 16; i += kLanes) store(y + i, splat(scale) * floats_of(codes(i)) - splat(take));
}

/// y[i] = scale·table[low nibble of q[i]] and y[16 + i] = scale·table[high nibble of q[i]], for 16 bytes q.
inline void look_up_nibbles(const float* table, const uint8_t* q, float scale, float* y) {
#if defined(__AVX512F__)
  const __m512i codes = _mm512_maskz_cvtepu8_epi32(0xffff, _mm_loadu_si128(reinterpret_cast<const __m128i*>(q)));
  const Vec numbers = load(table);  // vpermps reads the four lowest bits of an index
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
