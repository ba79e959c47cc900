#pragma once
// Products of one coded row and up to four rounded rows of x, the codes unpacked in registers (AVX2; coded_int8.h says
// which numbers). Only for *_isa.cpp files. A type is a struct: kBytes of kNumbers neighbours, kZero (what is
// taken from a code, which then has no sign; kAnySign: the code is the number), kLeasts (it has offsets), kFine (a scale for each 16, not 32), and what `take` of 8 groups of 32 asks for.
// Layouts: beside the decoders (decode_*_isa.cpp).

#include "kernels/cpu/decode_impl.h"

namespace tern::TERN_ISA_NAMESPACE {
namespace {

#if defined(__AVX512VNNI__)
constexpr int kLess = 128;
#else
constexpr int kLess = 8;
#endif
/// 256 neighbours of a row of x, rounded; behind the row's end zeros. scales: of 16 and of 32 neighbours. sums: of four codes
/// each; less: -kLess times them.
struct Rounded {
  alignas(64) int8_t codes[256];
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

constexpr int kAnySign = -1;

/// Halves at `at`, `at` + kStride, …: n of 8, the others zero.
template <int64_t kStride>
inline Vec half_scales(const uint8_t* at, int64_t n) {
  __m128i h = _mm_setzero_si128();
  if (n == 8) {
    h = _mm_cvtsi32_si128(number_at<uint16_t>(at));
    h = _mm_insert_epi16(h, number_at<int16_t>(at + kStride), 1);
    h = _mm_insert_epi16(h, number_at<int16_t>(at + 2 * kStride), 2);
    h = _mm_insert_epi16(h, number_at<int16_t>(at + 3 * kStride), 3);
    h = _mm_insert_epi16(h, number_at<int16_t>(at + 4 * kStride), 4);
    h = _mm_insert_epi16(h, number_at<int16_t>(at + 5 * kStride), 5);
    h = _mm_insert_epi16(h, number_at<int16_t>(at + 6 * kStride), 6);
    h = _mm_insert_epi16(h, number_at<int16_t>(at + 7 * kStride), 7);
    return halves((VecU16)h);
  }
  VecU16 some = {};
  for (int i = 0; i < n; ++i) some[i] = number_at<uint16_t>(at + i * kStride);
  return halves(some);
}
inline __m256i load_32(const uint8_t* at) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)); }
inline __m256i twice_16(const void* at) {
  return _mm256_broadcastsi128_si256(_mm_loadu_si128(static_cast<const __m128i*>(at)));
}
/// The nibbles of 16 bytes: low ones, then high ones.
inline __m256i nibbles_32(const uint8_t* at) {
  const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
  const __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(low), _mm_srli_epi16(low, 4), 1);
  return _mm256_and_si256(both, _mm256_set1_epi8(15));
}

struct DotsQ8_0 {
  static constexpr int64_t kNumbers = 32, kBytes = 34;
  static constexpr int kZero = kAnySign;
  static constexpr bool kLeasts = false, kFine = false;
  static void scales(const uint8_t* b, int64_t n, const RowCodebook&, Vec* to, Vec*) {
    to[0] = half_scales<kBytes>(b, n);
  }
  static __m256i codes(const uint8_t* b, int g, const RowCodebook&) { return load_32(b + g * kBytes + 2); }
};
struct DotsQ4_0 {
  static constexpr int64_t kNumbers = 32, kBytes = 18;
  static constexpr int kZero = 8;
  static constexpr bool kLeasts = false, kFine = false;
  static void scales(const uint8_t* b, int64_t n, const RowCodebook&, Vec* to, Vec*) {
    to[0] = half_scales<kBytes>(b, n);
  }
  static __m256i codes(const uint8_t* b, int g, const RowCodebook&) { return nibbles_32(b + g * kBytes + 2); }
};
struct DotsQ4_1 {
  static constexpr int64_t kNumbers = 32, kBytes = 20;
  static constexpr int kZero = 0;
  static constexpr bool kLeasts = true, kFine = false;
  static void scales(const uint8_t* b, int64_t n, const RowCodebook&, Vec* to, Vec* leasts) {
    to[0] = half_scales<kBytes>(b, n), *leasts = half_scales<kBytes>(b + 2, n);
  }
  static __m256i codes(const uint8_t* b, int g, const RowCodebook&) { return nibbles_32(b + g * kBytes + 4); }
};

/// Scales and offsets of the eight sub-blocks of Q4_K and Q5_K.
inline void scales_and_leasts_k(const uint8_t* b, Vec* scales, Vec* leasts) {
  const uint32_t lo = number_at<uint32_t>(b + 4), mid = number_at<uint32_t>(b + 8), hi = number_at<uint32_t>(b + 12);
  const uint64_t s = (lo & 0x3f3f3f3fu) | static_cast<uint64_t>((hi & 0x0f0f0f0fu) | (lo >> 2 & 0x30303030u)) << 32;
  const uint64_t m = (mid & 0x3f3f3f3fu) | static_cast<uint64_t>((hi >> 4 & 0x0f0f0f0fu) | (mid >> 2 & 0x30303030u))
                                               << 32;
  const auto floats = [](uint64_t eight) {
    return floats_of((VecInt)_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<int64_t>(eight))));
  };
  *scales = splat(half(b)) * floats(s);
  *leasts = -(splat(half(b + 2)) * floats(m));
}
struct DotsQ4K {
  static constexpr int64_t kNumbers = 256, kBytes = 144;
  static constexpr int kZero = 0;
  static constexpr bool kLeasts = true, kFine = false;
  static void scales(const uint8_t* b, int64_t, const RowCodebook&, Vec* to, Vec* leasts) {
    scales_and_leasts_k(b, to, leasts);
  }
  static __m256i codes(const uint8_t* b, int g, const RowCodebook&) {
    const __m256i q = load_32(b + 16 + g / 2 * 32);
    return _mm256_and_si256(g % 2 == 0 ? q : _mm256_srli_epi16(q, 4), _mm256_set1_epi8(15));
  }
};
struct DotsQ5K {
  static constexpr int64_t kNumbers = 256, kBytes = 176;
  static constexpr int kZero = 0;
  static constexpr bool kLeasts = true, kFine = false;
  static void scales(const uint8_t* b, int64_t, const RowCodebook&, Vec* to, Vec* leasts) {
    scales_and_leasts_k(b, to, leasts);
  }
  static __m256i codes(const uint8_t* b, int g, const RowCodebook&) {
    const __m256i q = load_32(b + 48 + g / 2 * 32), fifth = load_32(b + 16), bit = _mm256_set1_epi8(16);
    const __m256i four = _mm256_and_si256(g % 2 == 0 ? q : _mm256_srli_epi16(q, 4), _mm256_set1_epi8(15));
    const __m256i up = g < 4 ? _mm256_slli_epi16(fifth, 4 - g) : _mm256_srli_epi16(fifth, g - 4);
    return _mm256_or_si256(four, _mm256_and_si256(up, bit));
  }
};
struct DotsQ6K {
  static constexpr int64_t kNumbers = 256, kBytes = 210;
  static constexpr int kZero = 32;
  static constexpr bool kLeasts = false, kFine = true;
  static void scales(const uint8_t* b, int64_t, const RowCodebook&, Vec* to, Vec*) {
    const Vec d = splat(half(b + 208));
    const auto eight = [&](const uint8_t* at) {
      return d * floats_of((VecInt)_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(at))));
    };
    to[0] = eight(b + 192), to[1] = eight(b + 200);
  }
  static __m256i codes(const uint8_t* b, int g, const RowCodebook&) {
    const int half = g / 4, row = g % 4;
    const __m256i q = load_32(b + half * 64 + row % 2 * 32), pairs = load_32(b + 128 + half * 32);
    const __m256i low = _mm256_and_si256(row < 2 ? q : _mm256_srli_epi16(q, 4), _mm256_set1_epi8(15));
    const __m256i up = row < 2 ? _mm256_slli_epi16(pairs, 4 - 2 * row) : _mm256_srli_epi16(pairs, 2 * row - 4);
    return _mm256_or_si256(low, _mm256_and_si256(up, _mm256_set1_epi8(48)));
  }
};

/// learned_scale of eight blocks by their first bytes, which are kStride apart: n of them, then nothing that matters.
template <int64_t kStride>
inline Vec learned_scales(const uint8_t* at, int64_t n, float scale) {
  __m128i bytes = _mm_cvtsi32_si128(*at);
  if (n == 8) {
    bytes = _mm_insert_epi8(bytes, at[kStride], 1);
    bytes = _mm_insert_epi8(bytes, at[2 * kStride], 2);
    bytes = _mm_insert_epi8(bytes, at[3 * kStride], 3);
    bytes = _mm_insert_epi8(bytes, at[4 * kStride], 4);
    bytes = _mm_insert_epi8(bytes, at[5 * kStride], 5);
    bytes = _mm_insert_epi8(bytes, at[6 * kStride], 6);
    bytes = _mm_insert_epi8(bytes, at[7 * kStride], 7);
  } else {
    uint8_t some[16] = {};
    for (int i = 0; i < n; ++i) some[i] = at[i * kStride];
    bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(some));
  }
  // kBlockScales[8e + j] is kBlockScales[j]·2^-e, exactly: j in bits 2 to 4, e in bits 5 and 6.
  const VecUint b = (VecUint)_mm256_cvtepu8_epi32(bytes);
  const Vec eighths = _mm256_permutevar8x32_ps(load(kBlockScales), (__m256i)(b >> 2));
  const Vec block = (Vec)((VecUint)eighths - ((b >> 5 & 3u) << 23));
  return (Vec)((VecUint)(splat(scale) * block) ^ (b & 128u) << 24);
}
template <int kBits>
struct DotsLearned {
  static constexpr int64_t kNumbers = 32, kBytes = 1 + 4 * kBits;
  static constexpr int kZero = kAnySign;
  static constexpr bool kLeasts = false, kFine = false;
  static void scales(const uint8_t* b, int64_t n, const RowCodebook& row, Vec* to, Vec*) {
    to[0] = learned_scales<kBytes>(b, n, row.scale);
  }
  static __m256i codes(const uint8_t* blocks, int g, const RowCodebook& row) {
    const uint8_t* b = blocks + g * kBytes;
    const int8_t* table = row.tables + (*b & 3) * (1 << kBits);
    if constexpr (kBits == 4) return _mm256_shuffle_epi8(twice_16(table), nibbles_32(b + 1));
    const __m256i eight = _mm256_set1_epi64x(number_at<int64_t>(b + 1));
    __m256i at = _mm256_and_si256(_mm256_srlv_epi64(eight, _mm256_setr_epi64x(0, 2, 4, 6)), _mm256_set1_epi8(3));
    if constexpr (kBits == 2)
      return _mm256_shuffle_epi8(_mm256_set1_epi32(number_at<int32_t>(reinterpret_cast<const uint8_t*>(table))), at);
    const __m256i bytes = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i each = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201));
    const __m256i upper = _mm256_shuffle_epi8(_mm256_set1_epi32(number_at<int32_t>(b + 9)), bytes);
    const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(upper, each), each);
    at = _mm256_or_si256(at, _mm256_and_si256(set, _mm256_set1_epi8(4)));
    return _mm256_shuffle_epi8(_mm256_set1_epi64x(number_at<int64_t>(reinterpret_cast<const uint8_t*>(table))), at);
  }
};

/// Scales of a row of x times those of w, 8 groups of 32: of each 32, or of each 16.
struct Products {
  alignas(32) float scales[16], leasts[8];
};
constexpr int64_t kScaled = 64;  // groups of 32 whose scales are made at once

template <class Type>
inline Vec scale_of_group(const Products& p, int g) {
  if (!Type::kFine) return _mm256_broadcast_ss(p.scales + g);
  return _mm256_set_m128(_mm_broadcast_ss(p.scales + 2 * g + 1), _mm_broadcast_ss(p.scales + 2 * g));
}

/// chains[r] += the products of group g of the i-th eight.
template <class Type, int kRows>
__attribute__((always_inline)) inline void add_group(const uint8_t* blocks, const RowCodebook& row, int g,
                                                     const Rounded* const* x, int64_t i,
                                                     const Products (*p)[kScaled / 8], Vec* chains) {
  const auto fours = [](const int32_t* at) { return _mm256_load_si256(reinterpret_cast<const __m256i*>(at)); };
  const __m256i w = Type::codes(blocks, g, row), ones = _mm256_set1_epi16(1);
  const __m256i size = Type::kZero == kAnySign ? _mm256_abs_epi8(w) : w;
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    __m256i b = _mm256_load_si256(reinterpret_cast<const __m256i*>(x[r][i].codes + g * 32));
    // |w|, of up to 128, times x with w's sign: two products of such and of x's codes, of up to 127, fit 16 bits.
    if (Type::kZero == kAnySign) b = _mm256_sign_epi8(b, w);
    __m256i dot = _mm256_madd_epi16(_mm256_maddubs_epi16(size, b), ones);
    if (Type::kZero > 0) {
      const __m256i less = fours(x[r][i].less + g * 8);
      dot = _mm256_add_epi32(dot, Type::kZero == kLess ? less : _mm256_slli_epi32(less, 2));
      static_assert(Type::kZero <= 0 || Type::kZero == kLess || Type::kZero == 4 * kLess);
    }
    chains[r] = chains[r] + floats_of((VecInt)dot) * scale_of_group<Type>(p[r][i], g);
    if (Type::kLeasts)
      chains[r] = chains[r] + floats_of((VecInt)fours(x[r][i].sums + g * 8)) * _mm256_broadcast_ss(p[r][i].leasts + g);
    asm(""
        : "+x"(chains[r]));  // group by group: the compiler would keep the scales of all groups in registers, and spill
  }
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
  }
  for (int64_t left = groups; left > 0; left -= kScaled) {
    // All scales first: they need many steps, one after the other, while the processor has nothing else to do.
    const int64_t here = left < kScaled ? left : kScaled;
    Products p[kRows][kScaled / 8];
    for (int64_t i = 0; i < (here + 7) / 8; ++i) {
      Vec scales[2], leasts;
      Type::scales(blocks + i * kBytesOf8, here - 8 * i < 8 ? here - 8 * i : 8, row, scales, &leasts);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const Vec s = load(xs[r][i].scales_of_32);
        if (Type::kFine) {
          store(p[r][i].scales, scales[0] * load(xs[r][i].scales));
          store(p[r][i].scales + 8, scales[1] * load(xs[r][i].scales + 8));
        } else {
          store(p[r][i].scales, scales[0] * s);
        }
        if (Type::kLeasts) store(p[r][i].leasts, leasts * s);
      }
    }
    int64_t i = 0;
    for (; i < here / 8; ++i, blocks += kBytesOf8)
#pragma GCC unroll 4
      for (int g = 0; g < 8; g += 2) {
        add_group<Type, kRows>(blocks, row, g, xs, i, p, even);
        add_group<Type, kRows>(blocks, row, g + 1, xs, i, p, odd);
      }
    for (int g = 0; g < here % 8; g += 2) {  // of blocks of 32 alone
      add_group<Type, kRows>(blocks, row, g, xs, i, p, even);
      if (g + 1 < here % 8) add_group<Type, kRows>(blocks, row, g + 1, xs, i, p, odd);
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) xs[r] += kScaled / 8;
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) store(chains + r * stride, even[r]), store(chains + r * stride + 8, odd[r]);
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
