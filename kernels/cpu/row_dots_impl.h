#pragma once
// Products of one coded row and up to four rounded rows of x, the codes unpacked in registers (AVX2; coded_int8.h says which
// numbers). Only for *_isa.cpp files.

#include "kernels/cpu/row_codes_impl.h"

namespace tern::TERN_ISA_NAMESPACE {
namespace {

/// 256 neighbours of a row of x, rounded; behind the row's end zeros. scales: of 16 and of 32 neighbours. sums: of four codes
/// each. less: with VNNI -128 times the sums; with AVX2 alone -8 times them, in the order of `paired`.
struct Rounded {
  alignas(64) int8_t codes[256];
  alignas(64) int8_t paired[256];  // AVX2: of each 64 numbers the sixteens 0, 2, 1, 3
  alignas(64) float scales[16];
  alignas(64) int32_t sums[64], less[64];
  alignas(32) float scales_of_32[8];
};

/// chains of row r (16 at chains + r·stride) of x (at x + r·x_stride) += the products of `groups` groups of 32 neighbours of a
/// row of w.
using RowDots = void (*)(const uint8_t* blocks, const RowCodebook&, int64_t groups, const Rounded* x, int64_t x_stride,
                         float* chains, int64_t stride);
constexpr int kDotRows = 4;  // of x at most

#if defined(__AVX2__) && !defined(__AVX512F__)

constexpr int64_t kAhead = 1536;  // bytes: the processor's own prefetching ends with a page
constexpr int64_t kScaled = 64;   // groups of 32 whose scales are made at once

/// Scales of a row of x times those of w, of 8 groups of 32: one each, or one for each 16; of paired types for each two groups
/// four times the first and four times the second.
struct ScaleProducts {
  alignas(32) float scales[32], leasts[8];
};
template <class Type>
inline void multiply_scales(const Vec* scales, Vec leasts, const Rounded& x, ScaleProducts& to) {
  const Vec s = load(x.scales_of_32);
  if (Type::kLeasts) store(to.leasts, leasts * s);
  if (Type::kScalesOf16) {
    store(to.scales, scales[0] * load(x.scales));
    return store(to.scales + 8, scales[1] * load(x.scales + 8));
  }
  if (!Type::kPaired) return store(to.scales, scales[0] * s);
  const Vec p = scales[0] * s;
  for (int j = 0; j < 4; ++j) {
    const int a = 2 * j, b = 2 * j + 1;
    store(to.scales + 8 * j, _mm256_permutevar8x32_ps(p, _mm256_setr_epi32(a, a, a, a, b, b, b, b)));
  }
}

inline __m256i load_32(const int8_t* at) { return _mm256_load_si256(reinterpret_cast<const __m256i*>(at)); }
inline __m256i load_32(const int32_t* at) { return _mm256_load_si256(reinterpret_cast<const __m256i*>(at)); }

/// Sums of four products each. |w|, of up to 128, times x with w's sign: two products of such and of x's codes, of up to 127,
/// fit 16 bits. So do those of codes without a sign, of up to 63.
template <int kZero>
inline __m256i fours(__m256i w, __m256i x) {
  const __m256i twos =
      kZero == kAnySign ? _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w)) : _mm256_maddubs_epi16(w, x);
  return _mm256_madd_epi16(twos, _mm256_set1_epi16(1));
}

/// chains[r] += the products of group g of the i-th eight.
template <class Type, int kRows>
__attribute__((always_inline)) inline void add_group(const uint8_t* blocks, const RowCodebook& row, int g,
                                                     const Rounded* const* x, int64_t i,
                                                     const ScaleProducts (*p)[kScaled / 8], Vec* chains) {
  const __m256i w = Type::codes(blocks, g, row);
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    __m256i dot = fours<Type::kZero>(w, load_32(x[r][i].codes + g * 32));
    static_assert(Type::kZero <= 0 || Type::kZero == 32);
    if (Type::kZero == 32) dot = _mm256_sub_epi32(dot, _mm256_slli_epi32(load_32(x[r][i].sums + g * 8), 5));
    const float* s = p[r][i].scales;
    const Vec scale = Type::kScalesOf16
                          ? (Vec)_mm256_set_m128(_mm_broadcast_ss(s + 2 * g + 1), _mm_broadcast_ss(s + 2 * g))
                          : (Vec)_mm256_broadcast_ss(s + g);
    chains[r] = chains[r] + floats_of((VecInt)dot) * scale;
    if (Type::kLeasts)
      chains[r] =
          chains[r] + floats_of((VecInt)load_32(x[r][i].sums + g * 8)) * _mm256_broadcast_ss(p[r][i].leasts + g);
    asm(""
        : "+x"(chains[r]));  // group by group: the compiler would keep the scales of all groups in registers, and spill
  }
}

/// The same of the two groups that begin at `blocks`, the j-th two of the i-th eight. chains: 0 to 3 and 8 to 11, the others.
template <class Type, int kRows>
__attribute__((always_inline)) inline void add_pair(const uint8_t* blocks, const RowCodebook& row, int j,
                                                    const Rounded* const* x, int64_t i,
                                                    const ScaleProducts (*p)[kScaled / 8], Vec* outer, Vec* inner) {
  __m256i low, high;
  Type::pair(blocks, row, &low, &high);
  static_assert(!Type::kLeasts && (Type::kZero <= 0 || Type::kZero == 8));
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    const Rounded& at = x[r][i];
    __m256i first = fours<Type::kZero>(low, load_32(at.paired + 64 * j));
    __m256i second = fours<Type::kZero>(high, load_32(at.paired + 64 * j + 32));
    if (Type::kZero > 0) {
      first = _mm256_add_epi32(first, load_32(at.less + 16 * j));
      second = _mm256_add_epi32(second, load_32(at.less + 16 * j + 8));
    }
    const Vec scale = load(p[r][i].scales + 8 * j);
    outer[r] = outer[r] + floats_of((VecInt)first) * scale;
    inner[r] = inner[r] + floats_of((VecInt)second) * scale;
    asm("" : "+x"(outer[r]), "+x"(inner[r]));
  }
}

/// Chains as paired types add to them, and back: 4 to 7 and 8 to 11 change places.
template <class Type>
inline void change_places(Vec& a, Vec& b) {
  if (!Type::kPaired) return;
  const __m256 first = a, second = b;
  a = _mm256_permute2f128_ps(first, second, 0x20), b = _mm256_permute2f128_ps(first, second, 0x31);
}

template <class Type, int kRows>
void row_dots(const uint8_t* blocks, const RowCodebook& row, int64_t groups, const Rounded* x, int64_t x_stride,
              float* chains, int64_t stride) {
  constexpr int64_t kBytesOf8 = 256 / Type::kNumbers * Type::kBytes;
  Vec even[kRows], odd[kRows];
  const Rounded* xs[kRows];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    xs[r] = x + r * x_stride;
    even[r] = load(chains + r * stride), odd[r] = load(chains + r * stride + 8);
    change_places<Type>(even[r], odd[r]);
  }
  for (int64_t left = groups; left > 0; left -= kScaled) {
    // All scales first: they need many steps, one after the other, while the processor has nothing else to do.
    const int64_t here = left < kScaled ? left : kScaled;
    ScaleProducts p[kRows][kScaled / 8];
    for (int64_t i = 0; i < (here + 7) / 8; ++i) {
      Vec scales[2], leasts = splat(0.0f);
      Type::scales(blocks + i * kBytesOf8, here - 8 * i < 8 ? here - 8 * i : 8, row, scales, &leasts);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) multiply_scales<Type>(scales, leasts, xs[r][i], p[r][i]);
    }
    int64_t i = 0;
    for (; i < here / 8; ++i, blocks += kBytesOf8) {
#pragma GCC unroll 5
      for (int64_t line = 0; line < kBytesOf8; line += 64) __builtin_prefetch(blocks + kAhead + line);
#pragma GCC unroll 4
      for (int g = 0; g < 8; g += 2) {
        if constexpr (Type::kPaired) {
          add_pair<Type, kRows>(blocks + g * Type::kBytes, row, g / 2, xs, i, p, even, odd);
        } else {
          add_group<Type, kRows>(blocks, row, g, xs, i, p, even);
          add_group<Type, kRows>(blocks, row, g + 1, xs, i, p, odd);
        }
      }
    }
    for (int g = 0; g < here % 8; g += 2) {  // of blocks of 32 alone
      const bool two = g + 1 < here % 8;
      if constexpr (Type::kPaired) {
        uint8_t last[2 * Type::kBytes] = {};
        __builtin_memcpy(last, blocks + g * Type::kBytes, static_cast<size_t>((two ? 2 : 1) * Type::kBytes));
        add_pair<Type, kRows>(last, row, g / 2, xs, i, p, even, odd);
      } else {
        add_group<Type, kRows>(blocks, row, g, xs, i, p, even);
        if (two) add_group<Type, kRows>(blocks, row, g + 1, xs, i, p, odd);
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) xs[r] += kScaled / 8;
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    change_places<Type>(even[r], odd[r]);
    store(chains + r * stride, even[r]), store(chains + r * stride + 8, odd[r]);
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
