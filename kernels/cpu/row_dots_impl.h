#pragma once
// Dot products of one coded row and up to eight rounded rows of x, with the codes unpacked in registers (AVX2 and AVX-512). coded_int8.h
// says what is computed. Only for *_isa.cpp files.

#include "kernels/cpu/row_codes_impl.h"

namespace tern::TERN_ISA_NAMESPACE {
namespace {

#if !defined(__AVX2__)
typedef float Eight __attribute__((vector_size(32)));
typedef int32_t EightInt __attribute__((vector_size(32)));
inline Eight eight_floats(EightInt v) { return __builtin_convertvector(v, Eight); }
constexpr int64_t kCodeLanes = 1, kApart = 8;
#endif

/// One stretch of a row of x: 256 consecutive numbers, rounded; zeros behind the row's end. codes: in the order of row_codes_impl.h's vectors.
/// sums: each group's scale times the sum of its codes; sums_of_16: the same for its first 16 codes and for its second 16. less: -128 times
/// the sums of a group's codes (less_of_first: of its first 16), which corrects products with codes of w that are too large by a constant.
struct Rounded {
  alignas(64) int8_t codes[256];
#if defined(__AVX512VBMI__) && defined(__AVX512VNNI__)
  int8_t by_elements[256];  // the same codes in the order of learned_rows_impl.h
#endif
  Eight scales, sums, sums_of_16[2];
  EightInt less, less_of_first;
};
/// Of a group's first 16 codes (kHalf 0) or its second 16.
template <int kHalf>
inline EightInt less_of_half(const Rounded& x) {
  return kHalf == 0 ? x.less_of_first : x.less - x.less_of_first;
}
constexpr int64_t kToSecond = 16 * kCodeLanes;  // from a group's first sixteen codes to its second
constexpr int64_t place_of_group(int64_t group) { return group % kApart * 2 * kToSecond + group / kApart * 16; }

/// a·b + c, rounded once.
inline Eight fused(Eight a, Eight b, Eight c) {
#if defined(__FMA__)
  return _mm256_fmadd_ps(a, b, c);
#elif defined(__aarch64__)
  float32x4_t of_a[2], of_b[2], to[2];
  __builtin_memcpy(of_a, &a, 32), __builtin_memcpy(of_b, &b, 32), __builtin_memcpy(to, &c, 32);
  for (int half = 0; half < 2; ++half) to[half] = vfmaq_f32(to[half], of_a[half], of_b[half]);
  __builtin_memcpy(&c, to, 32);
  return c;
#else
  // In doubles products are exact. The sum with c is rounded to odd: if it is inexact and its last bit even, it moves by one unit towards the exact
  // sum. Rounding it to f32 then gives the same as rounding the exact sum (Boldo and Melquiond 2008, IEEE Trans. Computers 57(4)).
  typedef double Doubles __attribute__((vector_size(64)));
  typedef int64_t Bits __attribute__((vector_size(64)));
  const Doubles product = __builtin_convertvector(a, Doubles) * __builtin_convertvector(b, Doubles);
  const Doubles added = __builtin_convertvector(c, Doubles), sum = product + added, of_added = sum - product;
  const Doubles away = (product - (sum - of_added)) + (added - of_added);
  const Bits up = away > 0.0, down = away<0.0, positive = sum> 0.0, even = ((Bits)sum & 1) - 1;
  const Bits step = -2 * (up == positive) - 1;  // of the magnitude
  const Doubles odd = (Doubles)((Bits)sum + (step & even & (up | down)));
  return __builtin_convertvector(odd, Eight);
#endif
}

/// The last step of a product: adds the chains that are 4 apart, then 2 apart, then 1 apart.
inline float sum_of_chains(const Eight& chains) {
  typedef float Four __attribute__((vector_size(16)));
  Four halves[2];
  __builtin_memcpy(halves, &chains, 32);
  const Four d = halves[0] + halves[1];
  return (d[0] + d[2]) + (d[1] + d[3]);
}

/// Writes to to[r·stride], for each r < rows, the product of a row of w, which has `groups` groups of 32 numbers, with row r of x, which
/// begins at x + r·x_stride.
using RowDots = void (*)(const uint8_t* blocks, const RowCodebook&, int64_t groups, const Rounded* x, int64_t x_stride,
                         int64_t rows, float* to, int64_t stride);
constexpr int64_t kDotRows = 8;  // rows of x at most: with 2,048 numbers each they stay in L1

#if defined(__AVX2__)

/// Prefetches what will be read soon after the kBytes bytes at `at`: the processor's own prefetching ends with a page. With AVX-512 each line comes to L2
/// from far ahead and to L1 from nearer, as L1 can wait for few lines of memory at once. (Two virtual cores of a Xeon, 2026-11-30, a loop of row_dots
/// over 300 MB, share of a plain read's rate with L2 alone from 6 KiB ahead and with both: Q8_0 0.91, 1.0, Q4_K 0.84, 0.91, LC4 0.78, 0.90.)
template <int64_t kBytes>
inline void prefetch_ahead(const uint8_t* at) {
#if defined(__AVX512F__)
  constexpr int64_t kToL2 = 14336, kToL1 = 3072;
#else
  constexpr int64_t kToL2 = 0, kToL1 = 1536;
#endif
#pragma GCC unroll 5
  for (int64_t line = 0; line < kBytes; line += 64) {
    if constexpr (kToL2 > 0) __builtin_prefetch(at + kToL2 + line, 0, 2);
    __builtin_prefetch(at + kToL1 + line, 0, 3);
  }
}

/// The codes of the groups in a vector's lanes: the first 16 of each group, and the second 16.
struct Groups {
  Codes first, second;
};
#endif

#if defined(__AVX512F__)

inline Codes load_codes(const int8_t* at) { return _mm512_load_si512(at); }
/// Adds four products to each of `sums`. With VNNI and kAnySign it multiplies w + 128 instead of w; then Rounded::less is to be added.
template <class Type>
inline Codes plus_fours(Codes sums, Codes w, Codes x) {
  constexpr bool kAnySign = Type::kAnySign;
#if defined(__AVX512VNNI__)
  return _mm512_dpbusd_epi32(sums, kAnySign ? _mm512_xor_si512(w, every_byte(-128)) : w, x);
#else
  // Multiplies |w|, up to 128, by x with w's sign. The codes of x are up to 127, so the sum of two such products fits 16 bits.
  const Codes magnitude = kAnySign ? _mm512_abs_epi8(w) : w;
  const Codes of_x = kAnySign ? _mm512_mask_sub_epi8(x, _mm512_movepi8_mask(w), _mm512_setzero_si512(), x) : x;
  return _mm512_add_epi32(sums, _mm512_madd_epi16(_mm512_maddubs_epi16(magnitude, of_x), _mm512_set1_epi16(1)));
#endif
}
/// Adds up the four sums of each group. `even` has those of groups 0, 2, 4, 6, `odd` those of 1, 3, 5, 7; lane g of the result is group g's.
inline EightInt sums_of_eight(Codes even, Codes odd) {
  const VecInt a = (VecInt)even, b = (VecInt)odd;
  const VecInt twos = __builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29) +
                      __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
  const VecInt sums = twos + __builtin_shufflevector(twos, twos, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
  return __builtin_shufflevector(sums, sums, 0, 1, 4, 5, 8, 9, 12, 13);
}

/// The codes of a stretch: j0 has groups 0, 2, 4, 6, j1 has groups 1, 3, 5, 7.
struct Stretch {
  Groups j0, j1;
};
template <class Type, class Read, class Row>
inline Stretch unpacked(const Read& at, const Row& row) {
  Stretch w;
  Type::template codes<0>(at, row, &w.j0.first, &w.j0.second);
  Type::template codes<1>(at, row, &w.j1.first, &w.j1.second);
  return w;
}
/// The sum of each group's products; w and x are the same stretch of their rows.
template <class Type>
inline EightInt sums_of_groups(const Stretch& w, const Rounded& x) {
  const auto of = [](const Groups& g, const int8_t* at) {
    const Codes firsts = plus_fours<Type>(_mm512_setzero_si512(), g.first, load_codes(at));
    return plus_fours<Type>(firsts, g.second, load_codes(at + kToSecond));
  };
  const EightInt sums = sums_of_eight(of(w.j0, x.codes), of(w.j1, x.codes + 2 * kToSecond));
#if defined(__AVX512VNNI__)
  if (Type::kAnySign) return sums + x.less;
#endif
  return sums;
}
/// The same for the first 16 numbers of each group (kHalf 0), or for the second 16 (kHalf 1).
template <class Type, int kHalf>
inline EightInt sums_of_sixteens(const Stretch& w, const Rounded& x) {
  const int8_t* at = x.codes + kHalf * kToSecond;
  const Codes zero = _mm512_setzero_si512();
  const Codes even = plus_fours<Type>(zero, kHalf == 0 ? w.j0.first : w.j0.second, load_codes(at));
  const Codes odd = plus_fours<Type>(zero, kHalf == 0 ? w.j1.first : w.j1.second, load_codes(at + 2 * kToSecond));
  const EightInt sums = sums_of_eight(even, odd);
#if defined(__AVX512VNNI__)
  if (Type::kAnySign) return sums + less_of_half<kHalf>(x);
#endif
  return sums;
}
inline Stretch load_stretch(const int8_t* codes) {
  const auto groups = [&](int64_t j) {
    return Groups{load_codes(codes + 128 * j), load_codes(codes + 128 * j + kToSecond)};
  };
  return {groups(0), groups(1)};
}

#elif defined(__AVX2__)

inline Codes load_codes(const int8_t* at) { return _mm256_load_si256(reinterpret_cast<const __m256i*>(at)); }
inline Codes fours_of(Codes twos) { return _mm256_madd_epi16(twos, _mm256_set1_epi16(1)); }
/// Sums of two products each. It multiplies |w|, up to 128, by x with w's sign; the codes of x are up to 127, so the sum of two such products
/// fits 16 bits.
inline Codes signed_twos(Codes w, Codes x) { return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w)); }
// Four vectors of sums (of groups 0 and 4, 1 and 5, 2 and 6, 3 and 7) are added up into one: fold_* interleaves two of them by
// 32 bits and adds, join_* interleaves the two results by 64 bits and adds.
inline Codes fold_16(Codes a, Codes b) {
  return _mm256_add_epi16(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
}
inline Codes fold_32(Codes a, Codes b) {
  return _mm256_add_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
}
inline Codes join_16(Codes ab, Codes cd) {
  return _mm256_add_epi16(_mm256_unpacklo_epi64(ab, cd), _mm256_unpackhi_epi64(ab, cd));
}
inline Codes join_32(Codes ab, Codes cd) {
  return _mm256_add_epi32(_mm256_unpacklo_epi64(ab, cd), _mm256_unpackhi_epi64(ab, cd));
}

/// The codes of a stretch.
struct Stretch {
  Groups j0, j1, j2, j3;  // j0: groups 0 and 4, j1: groups 1 and 5, and so on
};
template <class Type, class Read, class Row>
inline Stretch unpacked(const Read& at, const Row& row) {
  Stretch w;
  Type::template codes<0>(at, row, &w.j0.first, &w.j0.second);
  Type::template codes<1>(at, row, &w.j1.first, &w.j1.second);
  Type::template codes<2>(at, row, &w.j2.first, &w.j2.second);
  Type::template codes<3>(at, row, &w.j3.first, &w.j3.second);
  return w;
}
/// The sum of each group's products.
/// 16 bits hold the sum of 16 products with codes of w up to 15, of 8 with codes up to 31, of 4 with codes up to 63.
template <class Type>
inline EightInt sums_of_groups(const Stretch& w, const Rounded& x) {
  const auto twos = [](const Groups& of_w, const int8_t* at) {
    const Codes a = load_codes(at), b = load_codes(at + kToSecond);
    if constexpr (Type::kAnySign)
      return _mm256_add_epi32(fours_of(signed_twos(of_w.first, a)), fours_of(signed_twos(of_w.second, b)));
    else
      return _mm256_add_epi16(_mm256_maddubs_epi16(of_w.first, a), _mm256_maddubs_epi16(of_w.second, b));
  };
  const Codes t0 = twos(w.j0, x.codes), t1 = twos(w.j1, x.codes + 64);
  if constexpr (Type::kAnySign) {
    const Codes ab = fold_32(t0, t1);
    const Codes t2 = twos(w.j2, x.codes + 128), t3 = twos(w.j3, x.codes + 192);
    return (EightInt)join_32(ab, fold_32(t2, t3));
  } else {
    const Codes ab = fold_16(t0, t1);
    const Codes t2 = twos(w.j2, x.codes + 128), t3 = twos(w.j3, x.codes + 192);
    const Codes cd = fold_16(t2, t3);
    static_assert(Type::kMost <= 31);
    return (EightInt)(Type::kMost <= 15 ? fours_of(join_16(ab, cd)) : join_32(fours_of(ab), fours_of(cd)));
  }
}
/// The same for the first 16 numbers of each group (kHalf 0), or for the second 16 (kHalf 1).
template <class Type, int kHalf>
inline EightInt sums_of_sixteens(const Stretch& w, const Rounded& x) {
  static_assert(Type::kAnySign || Type::kMost <= 63);
  const auto of = [&](const Groups& g, int j) {
    const Codes codes = kHalf == 0 ? g.first : g.second, of_x = load_codes(x.codes + 64 * j + kHalf * kToSecond);
    return Type::kAnySign ? signed_twos(codes, of_x) : _mm256_maddubs_epi16(codes, of_x);
  };
  const auto fours = [](Codes a, Codes b) {
    return Type::kAnySign ? fold_32(fours_of(a), fours_of(b)) : fours_of(fold_16(a, b));
  };
  const Codes ab = fours(of(w.j0, 0), of(w.j1, 1));
  return (EightInt)join_32(ab, fours(of(w.j2, 2), of(w.j3, 3)));
}
inline Stretch load_stretch(const int8_t* codes) {
  const auto groups = [&](int64_t j) {
    return Groups{load_codes(codes + 64 * j), load_codes(codes + 64 * j + kToSecond)};
  };
  return {groups(0), groups(1), groups(2), groups(3)};
}

#else

/// The codes of a stretch, in memory.
struct Stretch {
  const int8_t* codes;
};
template <class Type, int kHalf>
inline EightInt sums_of_sixteens(const Stretch& w, const Rounded& x) {
  EightInt sums = {};
  for (int64_t g = 0; g < 8; ++g)
    for (int64_t i = place_of_group(g) + kHalf * kToSecond, end = i + 16; i < end; ++i)
      sums[g] += w.codes[i] * x.codes[i];
  return sums;
}
template <class Type>
inline EightInt sums_of_groups(const Stretch& w, const Rounded& x) {
  return sums_of_sixteens<Type, 0>(w, x) + sums_of_sixteens<Type, 1>(w, x);
}
inline Stretch load_stretch(const int8_t* codes) { return {codes}; }

#endif

/// The scales and offsets of a stretch of w, as a type's scales() gives them; zeros behind the row's end.
struct Scales {
  Eight of[2], leasts[2];
};

/// Corrects sums of products of codes for kLess, which the codes of w still contain. less: -128 times the sums of x's codes.
template <class Type>
inline Eight less_constant(EightInt sums, EightInt less) {
  static_assert(Type::kLess == 0 || Type::kLess == 8 || Type::kLess == 32);
  if constexpr (Type::kLess > 0) sums += less >> (Type::kLess == 8 ? 4 : 2);
  return eight_floats(sums);
}

/// chains + the scaled products of a stretch of w and of x.
template <class Type>
inline Eight plus_products(const Stretch& w, const Scales& scales, const Rounded& x, Eight chains) {
  if constexpr (Type::kScalesOf16) {
    const Eight first = less_constant<Type>(sums_of_sixteens<Type, 0>(w, x), less_of_half<0>(x));
    const Eight second = less_constant<Type>(sums_of_sixteens<Type, 1>(w, x), less_of_half<1>(x));
    chains = fused(second, scales.of[1] * x.scales, fused(first, scales.of[0] * x.scales, chains));
    if constexpr (Type::kLeasts)
      chains = fused(scales.leasts[1], x.sums_of_16[1], fused(scales.leasts[0], x.sums_of_16[0], chains));
  } else {
    const Eight sums = less_constant<Type>(sums_of_groups<Type>(w, x), x.less);
    chains = fused(sums, scales.of[0] * x.scales, chains);
    if constexpr (Type::kLeasts) chains = fused(scales.leasts[0], x.sums, chains);
  }
  return chains;
}

#if defined(__AVX2__)

template <class Type, class Read>
inline Scales scales_of(const Read& blocks, const RowCodebook& row, int64_t groups) {
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

/// RowDots of a type. kMany: for any number of rows of x up to kDotRows; else for one row.
template <class Type, bool kMany>
void row_dots(const uint8_t* blocks, const RowCodebook& row, int64_t groups, const Rounded* x, int64_t x_stride,
              int64_t rows, float* to, int64_t stride) {
  constexpr int64_t kStretch = 256 / Type::kNumbers * Type::kBytes;
  static_assert(Type::kNumbers == 32 || Type::kNumbers == 256);
  static_assert(!Type::kBiased);  // plus_fours adds 128 itself
  Eight chains[kMany ? kDotRows : 1] = {};
  alignas(32) uint8_t last[kStretch];  // the last stretch if it is not whole, then zeros
  const auto& prepared = Type::prepared(row);
  // Nothing is stored between what reads a block for its scale and what reads it for its codes, so one load serves both.
  const auto add = [&](const uint8_t* stretch, int64_t of_groups) __attribute__((always_inline)) {
    const auto read = Type::read(stretch);
    const Stretch w = unpacked<Type>(read, prepared);
    const Scales scales = scales_of<Type>(read, row, of_groups);
    const Rounded* of_x = x;
    for (int64_t r = 0; r < (kMany ? rows : 1); ++r, of_x += x_stride)
      chains[r] = plus_products<Type>(w, scales, *of_x, chains[r]);
    ++x;
  };
  for (; groups >= 8; groups -= 8, blocks += kStretch) {
    prefetch_ahead<kStretch>(blocks);
    add(blocks, 8);
  }
  if (groups > 0) {
    __builtin_memset(last, 0, sizeof last);
    __builtin_memcpy(last, blocks, static_cast<size_t>(groups * Type::kBytes));
    add(last, groups);
  }
  for (int64_t r = 0; r < (kMany ? rows : 1); ++r) to[r * stride] = sum_of_chains(chains[r]);
}

/// of(Type()), with Type the struct of `type`, if its codes are unpacked in registers; else nullptr.
template <class Result, class Of>
inline Result of_dots(WeightType type, const Of& of) {
  switch (type) {
    case WeightType::q8_0:
      return of(DotsQ8_0());
    case WeightType::q4_0:
      return of(DotsQ4_0());
    case WeightType::q4_1:
      return of(DotsQ4_1());
    case WeightType::q4_k:
      return of(DotsQ4K());
    case WeightType::q5_k:
      return of(DotsQ5K());
    case WeightType::q6_k:
      return of(DotsQ6K());
    case WeightType::lc4:
      return of(DotsLearned<4>());
    case WeightType::lc3:
      return of(DotsLearned<3>());
    case WeightType::lc2:
      return of(DotsLearned<2>());
    default:
      return nullptr;
  }
}

template <class Type>
constexpr RowDots kDotsOf[2] = {row_dots<Type, false>, row_dots<Type, true>};
/// The RowDots of a type, for one row of x and for more. nullptr: rows are multiplied by pairs (learned_rows_impl.h), or the type's
/// codes are unpacked to memory first.
inline const RowDots* row_dots_of(WeightType type) {
  return of_dots<const RowDots*>(type, [](auto dots) -> const RowDots* {
    if constexpr (decltype(dots)::kBiased)
      return nullptr;
    else
      return kDotsOf<decltype(dots)>;
  });
}

#else

inline const RowDots* row_dots_of(WeightType) { return nullptr; }

#endif

}  // namespace
}  // namespace tern::TERN_ISA_NAMESPACE
