#pragma once
// The vector of this instruction set: Vec holds kLanes floats. Only for *_isa.cpp files, which are compiled once per
// set. Everything is static or in the set's namespace: an inline function with external linkage, compiled with AVX-512
// flags, could be picked by the linker for every caller (kernels/README.md). Arithmetic is written with the operators
// of the compiler's vector extension; a fused multiply-add happens only where fma() is called (-ffp-contract=off), so
// that the bits do not depend on what the optimizer sees.

#include <cstddef>
#include <cstdint>
#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "base/dtype.h"  // only the types: its functions are inline with external linkage

namespace tern::TERN_ISA_NAMESPACE {
namespace {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX2__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif
typedef float Vec __attribute__((vector_size(4 * kLanes)));
typedef int32_t VecInt __attribute__((vector_size(4 * kLanes)));
typedef uint32_t VecUint __attribute__((vector_size(4 * kLanes)));
typedef uint16_t VecU16 __attribute__((vector_size(2 * kLanes)));

inline Vec splat(float x) {
#if defined(__AVX512F__)
  return _mm512_set1_ps(x);
#elif defined(__AVX2__)
  return _mm256_set1_ps(x);
#else
  return Vec{x, x, x, x};
#endif
}
inline VecInt splat_int(int32_t x) {
#if defined(__AVX512F__)
  return (VecInt)_mm512_set1_epi32(x);
#elif defined(__AVX2__)
  return (VecInt)_mm256_set1_epi32(x);
#else
  return VecInt{x, x, x, x};
#endif
}

inline float as_float(bf16 x) {
  const uint32_t u = static_cast<uint32_t>(x.bits) << 16;
  float y;
  __builtin_memcpy(&y, &u, 4);
  return y;
}
inline float as_float(float x) { return x; }

inline Vec widen(VecU16 x) { return (Vec)(__builtin_convertvector(x, VecUint) << 16); }
/// Rounds to the nearest bf16, ties to even; NaN stays NaN: the bits of to_bf16. (vcvtneps2bf16 flushes subnormals to zero, so it is used only
/// if no lane is subnormal.)
inline VecU16 narrow(Vec x) {
#if defined(__AVX512BF16__)
  constexpr int kSubnormal = 0x20;
  if (__builtin_expect(_mm512_fpclass_ps_mask(x, kSubnormal) == 0, 1)) {
    VecU16 y;  // by asm: clang 16 crashes when it optimizes the intrinsics' bf16 vectors
    asm("vcvtneps2bf16 %1, %0" : "=v"(y) : "v"(x));
    return y;
  }
#endif
  const VecUint u = (VecUint)x;
  const VecUint rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  const VecUint quiet = (u >> 16) | 0x40u;
  const VecUint is_nan = (VecUint)(x != x);
  return __builtin_convertvector((rounded & ~is_nan) | (quiet & is_nan), VecU16);
}

inline Vec load(const float* p) {
  Vec v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
inline Vec load(const bf16* p) {
  VecU16 v;
  __builtin_memcpy(&v, p, sizeof v);
  return widen(v);
}
inline void store(float* p, Vec v) { __builtin_memcpy(p, &v, sizeof v); }
inline void store(bf16* p, Vec v) {
  const VecU16 narrowed = narrow(v);
  __builtin_memcpy(p, &narrowed, sizeof narrowed);
}

// Tails: the first n lanes, 0 <= n <= kLanes. A load sets the other lanes to zero; a store does not write them.
#if defined(__AVX512F__)
inline __mmask16 first_lanes(int64_t n) { return static_cast<__mmask16>((1u << n) - 1u); }
inline Vec load(const float* p, int64_t n) { return _mm512_maskz_loadu_ps(first_lanes(n), p); }
inline Vec load(const bf16* p, int64_t n) { return widen((VecU16)_mm256_maskz_loadu_epi16(first_lanes(n), p)); }
inline void store(float* p, Vec v, int64_t n) { _mm512_mask_storeu_ps(p, first_lanes(n), v); }
inline void store(bf16* p, Vec v, int64_t n) { _mm256_mask_storeu_epi16(p, first_lanes(n), (__m256i)narrow(v)); }
#else
#if defined(__AVX2__)
inline __m256i first_lanes(int64_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
inline Vec load(const float* p, int64_t n) { return _mm256_maskload_ps(p, first_lanes(n)); }
inline void store(float* p, Vec v, int64_t n) { _mm256_maskstore_ps(p, first_lanes(n), v); }
#else
inline Vec load(const float* p, int64_t n) {
  float padded[kLanes] = {};
  for (int64_t i = 0; i < n; ++i) padded[i] = p[i];
  return load(padded);
}
inline void store(float* p, Vec v, int64_t n) {
  for (int64_t i = 0; i < n; ++i) p[i] = v[i];
}
#endif
inline Vec load(const bf16* p, int64_t n) {
  bf16 padded[kLanes] = {};
  for (int64_t i = 0; i < n; ++i) padded[i] = p[i];
  return load(padded);
}
inline void store(bf16* p, Vec v, int64_t n) {
  const VecU16 narrowed = narrow(v);
  for (int64_t i = 0; i < n; ++i) p[i].bits = narrowed[i];
}
#endif

/// a·b + c: rounded once where the set has a fused instruction, twice on plain x86-64.
inline Vec fma(Vec a, Vec b, Vec c) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(a, b, c);
#elif defined(__FMA__)
  return _mm256_fmadd_ps(a, b, c);
#elif defined(__aarch64__)
  return (Vec)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
#else
  return a * b + c;
#endif
}
/// mask ? a : b per lane; a mask is the result of a comparison (all ones or zero).
inline Vec select(VecInt mask, Vec a, Vec b) { return (Vec)(((VecInt)a & mask) | ((VecInt)b & ~mask)); }
/// a > b ? a : b, so a NaN in a yields b.
inline Vec max(Vec a, Vec b) {
#if defined(__AVX512F__)
  return _mm512_maskz_max_ps(0xffff, a, b);  // all lanes; for the unmasked form g++ 12 warns of an undefined source
#else
  return select(a > b, a, b);
#endif
}
inline Vec min(Vec a, Vec b) {
#if defined(__AVX512F__)
  return _mm512_maskz_min_ps(0xffff, a, b);
#else
  return select(a < b, a, b);
#endif
}
inline Vec abs(Vec a) { return (Vec)((VecInt)a & 0x7fffffff); }

/// Combines all lanes of v in one fixed order: folds the upper half onto the lower half until one lane is left.
template <class Fold>
inline float fold_lanes(Vec v, Fold fold) {
#if defined(__AVX512F__)
  v = fold(v, __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 8, 9, 10, 11, 12, 13, 14, 15));
  v = fold(v, __builtin_shufflevector(v, v, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7));
  v = fold(v, __builtin_shufflevector(v, v, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3, 2, 3));
  v = fold(v, __builtin_shufflevector(v, v, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1));
#elif defined(__AVX2__)
  v = fold(v, __builtin_shufflevector(v, v, 4, 5, 6, 7, 4, 5, 6, 7));
  v = fold(v, __builtin_shufflevector(v, v, 2, 3, 2, 3, 2, 3, 2, 3));
  v = fold(v, __builtin_shufflevector(v, v, 1, 1, 1, 1, 1, 1, 1, 1));
#else
  v = fold(v, __builtin_shufflevector(v, v, 2, 3, 2, 3));
  v = fold(v, __builtin_shufflevector(v, v, 1, 1, 1, 1));
#endif
  return v[0];
}
inline float sum(Vec v) {
  return fold_lanes(v, [](Vec a, Vec b) { return a + b; });
}
inline float largest(Vec v) {
  return fold_lanes(v, [](Vec a, Vec b) { return max(a, b); });
}

}  // namespace
}  // namespace tern::TERN_ISA_NAMESPACE
