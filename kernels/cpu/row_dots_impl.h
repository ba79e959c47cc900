#pragma once
// Products of one coded row and up to four rounded rows of x, the codes unpacked in registers (AVX2; coded_int8.h says which
// numbers). Only for *_isa.cpp files.

#include "kernels/cpu/row_codes_impl.h"

namespace tern::TERN_ISA_NAMESPACE {
namespace {

/// 256 neighbours of a row of x, rounded; behind the row's end zeros. codes: of groups 0 4 1 5 the first sixteens, then their
/// second ones, then so of groups 2 6 3 7. sums: a group's scale times the sum of its codes; sums_of_16: the same of the first
/// sixteens, then of the second ones. less: -128 times the sum of four codes, for products that take w without a sign.
struct Rounded {
  alignas(64) int8_t codes[256];
  alignas(32) float scales[8];
  alignas(32) float sums[8], sums_of_16[16];
#if defined(__AVX512VNNI__)
  alignas(64) int32_t less[64];
#endif
};
/// Where in `codes` the first sixteen of a group stand; the second: 64 further.
constexpr int64_t place_of_group(int64_t group) { return group % 4 / 2 * 128 + group % 2 * 32 + group / 4 * 16; }

constexpr int kChains = 16;
/// The end of a product: chains 8 apart, offsets, then 4, 2 and 1 apart.
inline float sum_of_chains(const float* chains, const float* leasts) {
  typedef float Eight __attribute__((vector_size(32)));
  typedef float Four __attribute__((vector_size(16)));
  Eight a, b, c;
  __builtin_memcpy(&a, chains, 32), __builtin_memcpy(&b, chains + 8, 32), __builtin_memcpy(&c, leasts, 32);
  a = a + b + c;
  Four halves[2];
  __builtin_memcpy(halves, &a, 32);
  const Four d = halves[0] + halves[1];
  return (d[0] + d[2]) + (d[1] + d[3]);
}

/// Numbers r of `to`, which are `stride` apart: the products of `groups` groups of 32 neighbours of a row of w with row r of x
/// (at x + r·x_stride).
using RowDots = void (*)(const uint8_t* blocks, const RowCodebook&, int64_t groups, const Rounded* x, int64_t x_stride,
                         float* to, int64_t stride);
constexpr int kDotRows = 4;  // of x at most

#if defined(__AVX2__) && !defined(__AVX512F__)

constexpr int64_t kAhead = 1536;  // bytes: the processor's own prefetching ends with a page
constexpr int64_t kScaled = 8;    // stretches of 256 whose scales are made at once

/// Scales of w times those of a row of x, of 8 groups; with scales of 16 numbers, of their second sixteens behind them.
struct ScaleProducts {
  alignas(32) float of[16];
};

inline __m256i load_codes(const int8_t* at) { return _mm256_load_si256(reinterpret_cast<const __m256i*>(at)); }
/// Sums of two products each. |w|, of up to 128, times x with w's sign: two products of such and of x's codes, of up to 127,
/// fit 16 bits. So do four of those of codes without a sign, of up to 63.
template <bool kAnySign>
inline __m256i twos(__m256i w, __m256i x) {
  return kAnySign ? _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w)) : _mm256_maddubs_epi16(w, x);
}
inline Vec floats_of_fours(__m256i twos) { return floats_of((VecInt)_mm256_madd_epi16(twos, _mm256_set1_epi16(1))); }

/// chains[r] += the products of groups j and j + 4 of a stretch.
template <class Type, int kRows, int j>
__attribute__((always_inline)) inline void add_groups(const uint8_t* blocks, const RowCodebook& row,
                                                      const Rounded* const* x, int64_t i,
                                                      const ScaleProducts (*p)[kScaled], Vec* chains) {
  __m256i first, second;
  Type::template codes<j>(blocks, row, &first, &second);
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    const int8_t* at = x[r][i].codes + place_of_group(j);
    const __m256i a = twos<Type::kAnySign>(first, load_codes(at));
    const __m256i b = twos<Type::kAnySign>(second, load_codes(at + 64));
    // Of each half of a vector the j-th number: the scales of groups j and j + 4.
    const Vec scale = _mm256_permute_ps(load(p[r][i].of), j * 0x55);
    if constexpr (Type::kScalesOf16) {
      chains[r] = chains[r] + floats_of_fours(a) * scale;
      chains[r] = chains[r] + floats_of_fours(b) * (Vec)_mm256_permute_ps(load(p[r][i].of + 8), j * 0x55);
    } else if constexpr (Type::kAnySign) {
      const __m256i ones = _mm256_set1_epi16(1);
      const __m256i fours = _mm256_add_epi32(_mm256_madd_epi16(a, ones), _mm256_madd_epi16(b, ones));
      chains[r] = chains[r] + floats_of((VecInt)fours) * scale;
    } else {
      chains[r] = chains[r] + floats_of_fours(_mm256_add_epi16(a, b)) * scale;
    }
    asm(""
        : "+x"(chains[r]));  // group by group: the compiler would keep the scales of all groups in registers, and spill
  }
}

/// p[r][i], and leasts[r] += the offsets, of a stretch of which `groups` are there.
template <class Type, int kRows>
__attribute__((always_inline)) inline void multiply_scales(const uint8_t* blocks, const RowCodebook& row,
                                                           int64_t groups, const Rounded* const* x, int64_t i,
                                                           ScaleProducts (*p)[kScaled], Vec* leasts) {
  Vec scales[2], least[2];
  Type::scales(blocks, row, scales, least);
  if (groups < 8) {
    const VecInt lane = {0, 1, 2, 3, 4, 5, 6, 7};
    const VecInt there = lane < static_cast<int>(groups);
    scales[0] = (Vec)((VecInt)scales[0] & there);
    if (Type::kLeasts) least[0] = (Vec)((VecInt)least[0] & there);
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    const Rounded& of_x = x[r][i];
    const Vec s = load(of_x.scales);
    store(p[r][i].of, scales[0] * s);
    if (Type::kScalesOf16) store(p[r][i].of + 8, scales[1] * s);
    if (!Type::kLeasts) continue;
    if (Type::kScalesOf16) {
      leasts[r] = leasts[r] + least[0] * load(of_x.sums_of_16);
      leasts[r] = leasts[r] + least[1] * load(of_x.sums_of_16 + 8);
    } else {
      leasts[r] = leasts[r] + least[0] * load(of_x.sums);
    }
  }
}

template <class Type, int kRows>
void row_dots(const uint8_t* blocks, const RowCodebook& row, int64_t groups, const Rounded* x, int64_t x_stride,
              float* to, int64_t stride) {
  constexpr int64_t kStretch = 256 / Type::kNumbers * Type::kBytes;
  static_assert(Type::kNumbers == 32 || Type::kNumbers == 256);
  Vec even[kRows], odd[kRows], leasts[kRows];
  const Rounded* xs[kRows];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) xs[r] = x + r * x_stride, even[r] = odd[r] = leasts[r] = splat(0.0f);
  alignas(32) uint8_t last[kStretch];  // what is there of the last stretch, and zeros
  const int64_t whole = groups / 8, rest = groups % 8, stretches = whole + (rest > 0);
  if (rest > 0) {
    __builtin_memset(last, 0, sizeof last);
    __builtin_memcpy(last, blocks + whole * kStretch, static_cast<size_t>(rest * Type::kBytes));
  }
  for (int64_t begin = 0; begin < stretches; begin += kScaled) {
    // All scales first: they need many steps, one after the other, while the processor has nothing else to do.
    const int64_t here = stretches - begin < kScaled ? stretches - begin : kScaled;
    ScaleProducts p[kRows][kScaled];
    for (int64_t i = 0; i < here; ++i) {
      const bool is_whole = begin + i < whole;
      const uint8_t* at = is_whole ? blocks + (begin + i) * kStretch : last;
      multiply_scales<Type, kRows>(at, row, is_whole ? 8 : rest, xs, i, p, leasts);
    }
    for (int64_t i = 0; i < here; ++i) {
      const uint8_t* at = begin + i < whole ? blocks + (begin + i) * kStretch : last;
#pragma GCC unroll 5
      for (int64_t line = 0; line < kStretch; line += 64) __builtin_prefetch(at + kAhead + line);
      add_groups<Type, kRows, 0>(at, row, xs, i, p, even);
      add_groups<Type, kRows, 1>(at, row, xs, i, p, odd);
      add_groups<Type, kRows, 2>(at, row, xs, i, p, even);
      add_groups<Type, kRows, 3>(at, row, xs, i, p, odd);
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) xs[r] += kScaled;
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    alignas(32) float chains[kChains], offsets[8];
    store(chains, even[r]), store(chains + 8, odd[r]), store(offsets, leasts[r]);
    to[r * stride] = sum_of_chains(chains, offsets);
  }
}

template <class Type>
constexpr RowDots kDotsOf[kDotRows] = {row_dots<Type, 1>, row_dots<Type, 2>, row_dots<Type, 3>, row_dots<Type, 4>};

/// By the number of x's rows, from one; nullptr: the type's codes are unpacked to memory first.
inline const RowDots* row_dots_of(WeightType type) {
  switch (type) {
    case WeightType::q8_0:
      return kDotsOf<DotsQ8_0>;
    case WeightType::q4_0:
      return kDotsOf<DotsQ4_0>;
    case WeightType::q4_1:
      return kDotsOf<DotsQ4_1>;
    case WeightType::q4_k:
      return kDotsOf<DotsQ4K>;
    case WeightType::q5_k:
      return kDotsOf<DotsQ5K>;
    case WeightType::q6_k:
      return kDotsOf<DotsQ6K>;
    case WeightType::lc4:
      return kDotsOf<DotsLearned<4>>;
    case WeightType::lc3:
      return kDotsOf<DotsLearned<3>>;
    case WeightType::lc2:
      return kDotsOf<DotsLearned<2>>;
    default:
      return nullptr;
  }
}

#else

inline const RowDots* row_dots_of(WeightType) { return nullptr; }

#endif

}  // namespace
}  // namespace tern::TERN_ISA_NAMESPACE
