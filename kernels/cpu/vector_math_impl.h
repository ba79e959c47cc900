#pragma once
// Elementary functions on Vec, for *_isa.cpp files. Tested in vector_math_test.cpp against doubles.

#include "kernels/cpu/lanes_impl.h"

namespace tern::TERN_ISA_NAMESPACE {
namespace {

/// e^x, within 2 units in the last place (subnormal results: within 2 subnormal steps); 0 below -104, infinity above
/// 88.73; NaN stays NaN.
/// Method: x = n·ln2 + r with |r| <= ln2/2, so e^x = 2^n·e^r. ln2 is split into two parts; the upper one has 9 trailing zeros, so that n·upper
/// is exact. e^r is its Taylor polynomial of degree 7; the remainder is below 0.3466^8/8! = 5.2e-9 of it. 2^n is the product of two factors,
/// as n reaches -150.
inline Vec exp(Vec x) {
#if defined(__AVX512F__)
  // vscalefps makes 2^n at once, subnormal results included; vmaxps and vminps give their second operand if one is NaN.
  constexpr __mmask16 kAll = 0xffff;  // the unmasked forms warn of an uninitialized value in GCC 12
  const Vec within = _mm512_maskz_min_ps(kAll, splat(89.5f), _mm512_maskz_max_ps(kAll, splat(-104.5f), x));
  const Vec k = _mm512_maskz_roundscale_ps(kAll, within * 0x1.715476p0f, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  Vec rest = fma(k, splat(-0x1.62e4p-1f), within);
  rest = fma(k, splat(-0x1.7f7d1cp-20f), rest);
  Vec sum = splat(1.0f / 5040.0f);
  sum = fma(sum, rest, splat(1.0f / 720.0f));
  sum = fma(sum, rest, splat(1.0f / 120.0f));
  sum = fma(sum, rest, splat(1.0f / 24.0f));
  sum = fma(sum, rest, splat(1.0f / 6.0f));
  sum = fma(sum, rest, splat(0.5f));
  return _mm512_maskz_scalef_ps(kAll, fma(rest * rest, sum, rest) + 1.0f, k);
#else
  const Vec clamped = min(max(x, splat(-104.5f)), splat(89.5f));
  const Vec magic = splat(0x1.8p23f);  // adding it rounds to an integer, kept in the low bits
  const Vec shifted = clamped * 0x1.715476p0f + magic;
  const Vec n = shifted - magic;
  const VecInt ni = (VecInt)shifted - (VecInt)magic;
  Vec r = fma(n, splat(-0x1.62e4p-1f), clamped);
  r = fma(n, splat(-0x1.7f7d1cp-20f), r);
  Vec q = splat(1.0f / 5040.0f);
  q = fma(q, r, splat(1.0f / 720.0f));
  q = fma(q, r, splat(1.0f / 120.0f));
  q = fma(q, r, splat(1.0f / 24.0f));
  q = fma(q, r, splat(1.0f / 6.0f));
  q = fma(q, r, splat(0.5f));
  const Vec e = fma(r * r, q, r) + 1.0f;
  const VecInt half = ni >> 1;
  const Vec scale_a = (Vec)((half + 127) << 23), scale_b = (Vec)((ni - half + 127) << 23);
  const Vec y = e * scale_a * scale_b;
  return select(x != x, x, y);
#endif
}

/// 1 / (1 + e^-x). It is computed from e^-|x|, with one formula for each sign of x, so that it is accurate at both ends.
inline Vec sigmoid(Vec x) {
  const Vec z = exp((Vec)((VecInt)x | (int32_t)0x80000000));  // e^-|x|
  const Vec above = 1.0f / (z + 1.0f);
  return select(x != x, x, select(x < 0.0f, z * above, above));
}

/// Square root, correctly rounded.
inline Vec sqrt(Vec x) {
#if defined(__AVX512F__)
  return _mm512_maskz_sqrt_ps(0xffff, x);  // the plain form warns of an uninitialized value in GCC 12
#elif defined(__AVX2__)
  return _mm256_sqrt_ps(x);
#else
  for (int i = 0; i < kLanes; ++i) x[i] = __builtin_sqrtf(x[i]);
  return x;
#endif
}

/// The standard normal distribution: cdf(x) within 4e-7 relative for |x| <= 2 (in the far tail within x²·1e-7), and its
/// density.
struct Normal {
  Vec cdf, density;
};
/// With z = |x|/√2 and t = 1/(1 + z/2): tail = ½ erfc(z) = ½ e^(-x²/2)·t·P(t). P is the least-squares fit to
/// e^(z²)·erfc(z)/t on 400 Chebyshev nodes of 0 <= z <= 10, degree 9, relative error 4e-8 (ours).
inline Normal normal(Vec x) {
  const Vec density = exp(x * x * -0.5f);
  const Vec t = 1.0f / fma(abs(x), splat(0.353553391f), splat(1.0f));
  Vec p = splat(0.0135346489f);
  p = fma(p, t, splat(-0.129614047f));
  p = fma(p, t, splat(0.44281113f));
  p = fma(p, t, splat(-0.687045793f));
  p = fma(p, t, splat(0.434151876f));
  p = fma(p, t, splat(-0.104528479f));
  p = fma(p, t, splat(0.22744552f));
  p = fma(p, t, splat(0.23828823f));
  p = fma(p, t, splat(0.282894015f));
  p = fma(p, t, splat(0.282062883f));
  const Vec tail = 0.5f * density * t * p;
  return {select(x < 0.0f, tail, select(x != x, x, 1.0f - tail)), density * 0.398942280f};
}

}  // namespace
}  // namespace tern::TERN_ISA_NAMESPACE
