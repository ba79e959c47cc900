#pragma once
// Products of one coded row and up to eight rounded rows of x, the codes unpacked in registers (AVX2; coded_int8.h says which
// numbers). Only for *_isa.cpp files.

#include "kernels/cpu/row_codes_impl.h"

namespace tern::TERN_ISA_NAMESPACE {
namespace {

/// Of the eight groups of 32 of 256 neighbours one number each.
typedef float Eight __attribute__((vector_size(32)));
typedef int32_t EightInt __attribute__((vector_size(32)));

/// A stretch of a row of x: 256 neighbours, rounded; behind the row's end zeros. codes: in order; with AVX2 alone the first sixteens of
/// groups 0 and 4, their second sixteens, then so of groups 1 and 5, 2 and 6, 3 and 7. sums: a group's scale times the sum of its codes;
/// sums_of_16: the same of its first and of its second sixteen. less: -128 times the sum of four codes, for products that take
/// w without a sign.
struct Rounded {
  alignas(64) int8_t codes[256];
  Eight scales, sums, sums_of_16[2];
#if defined(__AVX512VNNI__)
  alignas(64) int32_t less[64];
#endif
};
#if defined(__AVX2__) && !defined(__AVX512F__)
constexpr int64_t kToSecond = 32;  // from a group's first sixteen codes to its second
constexpr int64_t place_of_group(int64_t group) { return group % 4 * 64 + group / 4 * 16; }
#else
constexpr int64_t kToSecond = 16;
constexpr int64_t place_of_group(int64_t group) { return group * 32; }
#endif

/// The end of a product: chains 4, 2 and 1 apart.
inline float sum_of_chains(const Eight& chains) {
  typedef float Four __attribute__((vector_size(16)));
  Four halves[2];
  __builtin_memcpy(halves, &chains, 32);
  const Four d = halves[0] + halves[1];
  return (d[0] + d[2]) + (d[1] + d[3]);
}

/// to[r·stride], for r < rows: the product of a row of w, of `groups` groups of 32 neighbours, with row r of x, which stands
/// at x + r·x_stride.
using RowDots = void (*)(const uint8_t* blocks, const RowCodebook&, int64_t groups, const Rounded* x, int64_t x_stride,
                         int64_t rows, float* to, int64_t stride);
constexpr int64_t kDotRows = 8;  // of x at most: with 2,048 numbers they stay in L1

#if defined(__AVX2__) && !defined(__AVX512F__)

constexpr int64_t kAhead = 1536;  // bytes: the processor's own prefetching ends with a page

/// Codes of groups j and j + 4: their first sixteens, their second ones.
struct TwoGroups {
  __m256i first, second;
};
inline __m256i load_codes(const int8_t* at) { return _mm256_load_si256(reinterpret_cast<const __m256i*>(at)); }
inline __m256i fours_of(__m256i twos) { return _mm256_madd_epi16(twos, _mm256_set1_epi16(1)); }
/// Sums of two products each. |w|, of up to 128, times x with w's sign: two products of such and of x's codes, of up to 127,
/// fit 16 bits.
inline __m256i signed_twos(__m256i w, __m256i x) {
  return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
}
// From four vectors of sums, of groups 0 and 4 to 3 and 7, to one: 32 bits of one beside those of the next, then 64.
inline __m256i fold_16(__m256i a, __m256i b) {
  return _mm256_add_epi16(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
}
inline __m256i fold_32(__m256i a, __m256i b) {
  return _mm256_add_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
}
inline __m256i join_16(__m256i ab, __m256i cd) {
  return _mm256_add_epi16(_mm256_unpacklo_epi64(ab, cd), _mm256_unpackhi_epi64(ab, cd));
}
inline __m256i join_32(__m256i ab, __m256i cd) {
  return _mm256_add_epi32(_mm256_unpacklo_epi64(ab, cd), _mm256_unpackhi_epi64(ab, cd));
}

/// The codes of 256 neighbours.
struct Stretch {
  TwoGroups j0, j1, j2, j3;  // groups j and j + 4
};
/// Sums of the products of each group, or of its first or second sixteen; x: Rounded::codes.
/// 16 bits hold 16 products of codes of up to 15, eight of up to 31, four of up to 63.
template <class Type>
inline EightInt sums_of_groups(const Stretch& w, const int8_t* x) {
  const auto both = [](const TwoGroups& of_w, const int8_t* at) {
    const __m256i a = load_codes(at), b = load_codes(at + kToSecond);
    if constexpr (Type::kAnySign)
      return _mm256_add_epi32(fours_of(signed_twos(of_w.first, a)), fours_of(signed_twos(of_w.second, b)));
    else
      return _mm256_add_epi16(_mm256_maddubs_epi16(of_w.first, a), _mm256_maddubs_epi16(of_w.second, b));
  };
  const __m256i t0 = both(w.j0, x), t1 = both(w.j1, x + 64);
  if constexpr (Type::kAnySign) {
    const __m256i ab = fold_32(t0, t1);
    const __m256i t2 = both(w.j2, x + 128), t3 = both(w.j3, x + 192);
    return (EightInt)join_32(ab, fold_32(t2, t3));
  } else {
    const __m256i ab = fold_16(t0, t1);
    const __m256i t2 = both(w.j2, x + 128), t3 = both(w.j3, x + 192);
    const __m256i cd = fold_16(t2, t3);
    static_assert(Type::kMost <= 31);
    return (EightInt)(Type::kMost <= 15 ? fours_of(join_16(ab, cd)) : join_32(fours_of(ab), fours_of(cd)));
  }
}
inline EightInt sums_of_sixteens(__m256i j0, __m256i j1, __m256i j2, __m256i j3, const int8_t* x) {
  const auto of = [&](__m256i w, int j) { return _mm256_maddubs_epi16(w, load_codes(x + 64 * j)); };
  const __m256i ab = fours_of(fold_16(of(j0, 0), of(j1, 1)));
  return (EightInt)join_32(ab, fours_of(fold_16(of(j2, 2), of(j3, 3))));
}

/// What 256 numbers of w are multiplied with; behind the row's end zeros.
struct Scales {
  Eight of[2], leasts[2];
};
template <class Type>
inline Scales scales_of(const uint8_t* blocks, const RowCodebook& row, int64_t groups) {
  Scales s;
  Type::scales(blocks, row, s.of, s.leasts);
  if (groups < 8) {
    const EightInt lane = {0, 1, 2, 3, 4, 5, 6, 7};
    const EightInt there = lane < static_cast<int>(groups);
    s.of[0] = (Eight)((EightInt)s.of[0] & there);
    if (Type::kLeasts) s.leasts[0] = (Eight)((EightInt)s.leasts[0] & there);
  }
  return s;
}

/// chains + the products of 256 numbers.
template <class Type>
inline Eight plus_products(const Stretch& w, const Scales& scales, const Rounded& x, Eight chains) {
  const auto floats = [](EightInt v) { return __builtin_convertvector(v, Eight); };
  if constexpr (Type::kScalesOf16) {
    static_assert(!Type::kAnySign && Type::kMost <= 63);
    const EightInt first = sums_of_sixteens(w.j0.first, w.j1.first, w.j2.first, w.j3.first, x.codes);
    chains = chains + floats(first) * (scales.of[0] * x.scales);
    const int8_t* behind = x.codes + kToSecond;
    const EightInt second = sums_of_sixteens(w.j0.second, w.j1.second, w.j2.second, w.j3.second, behind);
    chains = chains + floats(second) * (scales.of[1] * x.scales);
    chains = chains + scales.leasts[0] * x.sums_of_16[0];
    return chains + scales.leasts[1] * x.sums_of_16[1];
  } else {
    chains = chains + floats(sums_of_groups<Type>(w, x.codes)) * (scales.of[0] * x.scales);
    return Type::kLeasts ? chains + scales.leasts[0] * x.sums : chains;
  }
}

/// kMany: of any number of rows, else of one.
template <class Type, bool kMany>
void row_dots(const uint8_t* blocks, const RowCodebook& row, int64_t groups, const Rounded* x, int64_t x_stride,
              int64_t rows, float* to, int64_t stride) {
  constexpr int64_t kStretch = 256 / Type::kNumbers * Type::kBytes;
  static_assert(Type::kNumbers == 32 || Type::kNumbers == 256);
  Eight chains[kMany ? kDotRows : 1] = {};
  alignas(32) uint8_t last[kStretch];  // what is there of the last stretch, and zeros
  const int64_t whole = groups / 8, rest = groups % 8, stretches = whole + (rest > 0);
  if (rest > 0) {
    __builtin_memset(last, 0, sizeof last);
    __builtin_memcpy(last, blocks + whole * kStretch, static_cast<size_t>(rest * Type::kBytes));
  }
  for (int64_t begin = 0; begin < stretches; begin += Type::kTogether) {
    const int64_t end = stretches - begin < Type::kTogether ? stretches : begin + Type::kTogether;
    Scales scales[Type::kTogether];
    for (int64_t i = begin; i < end; ++i) {
      const uint8_t* at = i < whole ? blocks + i * kStretch : last;
      scales[i - begin] = scales_of<Type>(at, row, i < whole ? 8 : rest);
    }
    for (int64_t i = begin; i < end; ++i) {
      const uint8_t* at = i < whole ? blocks + i * kStretch : last;
#pragma GCC unroll 5
      for (int64_t line = 0; line < kStretch; line += 64) __builtin_prefetch(at + kAhead + line);
      Stretch w;
      Type::template codes<0>(at, row, &w.j0.first, &w.j0.second);
      Type::template codes<1>(at, row, &w.j1.first, &w.j1.second);
      Type::template codes<2>(at, row, &w.j2.first, &w.j2.second);
      Type::template codes<3>(at, row, &w.j3.first, &w.j3.second);
      const Rounded* of_x = x + i;
      for (int64_t r = 0; r < (kMany ? rows : 1); ++r, of_x += x_stride)
        chains[r] = plus_products<Type>(w, scales[i - begin], *of_x, chains[r]);
    }
  }
  for (int64_t r = 0; r < (kMany ? rows : 1); ++r) to[r * stride] = sum_of_chains(chains[r]);
}

template <class Type>
constexpr RowDots kDotsOf[2] = {row_dots<Type, false>, row_dots<Type, true>};

/// For one row of x, and for more; nullptr: the type's codes are unpacked to memory first.
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
