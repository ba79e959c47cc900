#pragma once
// How types of coded weights give their integers to row_dots_impl.h in registers (AVX2). Only for *_isa.cpp files.
// A type is a struct: kBytes hold kNumbers neighbours. scales(): those of 8 groups of 32 neighbours (kScalesOf16: of 16 groups
// of 16), of which n are there, and with kLeasts their offsets. codes(): the 32 integers of group g. kPaired instead: pair(), of
// two groups 16 of each, the first, then the second ones. kZero is to be taken from each, which has no sign; kAnySign: nothing is.
// Layouts: beside the decoders (decode_*_isa.cpp).

#include "kernels/cpu/decode_impl.h"

#if defined(__AVX2__) && !defined(__AVX512F__)
namespace tern::TERN_ISA_NAMESPACE {
namespace {

constexpr int kAnySign = -1;
/// What most types are.
struct Dots {
  static constexpr int kZero = kAnySign;
  static constexpr bool kLeasts = false, kScalesOf16 = false, kPaired = false;
};

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
/// The low nibbles of 16 bytes and of another 16, and the high ones.
inline void nibbles_of_two(const uint8_t* first, const uint8_t* second, __m256i* low, __m256i* high) {
  const __m256i a = _mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(first)));
  const __m256i both = _mm256_inserti128_si256(a, _mm_loadu_si128(reinterpret_cast<const __m128i*>(second)), 1);
  *low = _mm256_and_si256(both, _mm256_set1_epi8(15));
  *high = _mm256_and_si256(_mm256_srli_epi16(both, 4), _mm256_set1_epi8(15));
}
/// The nibbles of 16 bytes: low ones, then high ones.
inline __m256i nibbles_32(const uint8_t* at) {
  const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
  const __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(low), _mm_srli_epi16(low, 4), 1);
  return _mm256_and_si256(both, _mm256_set1_epi8(15));
}

struct DotsQ8_0 : Dots {
  static constexpr int64_t kNumbers = 32, kBytes = 34;
  static void scales(const uint8_t* b, int64_t n, const RowCodebook&, Vec* to, Vec*) {
    to[0] = half_scales<kBytes>(b, n);
  }
  static __m256i codes(const uint8_t* b, int g, const RowCodebook&) { return load_32(b + g * kBytes + 2); }
};
struct DotsQ4_0 : Dots {
  static constexpr int64_t kNumbers = 32, kBytes = 18;
  static constexpr int kZero = 8;
  static constexpr bool kPaired = true;
  static void scales(const uint8_t* b, int64_t n, const RowCodebook&, Vec* to, Vec*) {
    to[0] = half_scales<kBytes>(b, n);
  }
  static void pair(const uint8_t* b, const RowCodebook&, __m256i* low, __m256i* high) {
    nibbles_of_two(b + 2, b + kBytes + 2, low, high);
  }
};
struct DotsQ4_1 : Dots {
  static constexpr int64_t kNumbers = 32, kBytes = 20;
  static constexpr int kZero = 0;
  static constexpr bool kLeasts = true;
  static void scales(const uint8_t* b, int64_t n, const RowCodebook&, Vec* to, Vec* leasts) {
    to[0] = half_scales<kBytes>(b, n), *leasts = half_scales<kBytes>(b + 2, n);
  }
  static __m256i codes(const uint8_t* b, int g, const RowCodebook&) { return nibbles_32(b + g * kBytes + 4); }
};

/// Blocks of Q4_K and Q5_K: scales and offsets of eight sub-blocks.
struct DotsK : Dots {
  static constexpr int64_t kNumbers = 256;
  static constexpr int kZero = 0;
  static constexpr bool kLeasts = true;
  static void scales(const uint8_t* b, int64_t, const RowCodebook&, Vec* to, Vec* leasts) {
    const uint32_t lo = number_at<uint32_t>(b + 4), mid = number_at<uint32_t>(b + 8), hi = number_at<uint32_t>(b + 12);
    const uint32_t scales_4 = (hi & 0x0f0f0f0fu) | (lo >> 2 & 0x30303030u);
    const uint32_t leasts_4 = (hi >> 4 & 0x0f0f0f0fu) | (mid >> 2 & 0x30303030u);
    const auto floats = [](uint32_t first, uint32_t second) {
      const __m128i eight = _mm_setr_epi32(static_cast<int>(first), static_cast<int>(second), 0, 0);
      return floats_of((VecInt)_mm256_cvtepu8_epi32(eight));
    };
    *to = splat(half(b)) * floats(lo & 0x3f3f3f3fu, scales_4);
    *leasts = -(splat(half(b + 2)) * floats(mid & 0x3f3f3f3fu, leasts_4));
  }
  /// Of 32 bytes the low or the high nibbles, as g is even or odd.
  static __m256i nibbles_of(const uint8_t* q, int g) {
    const __m256i both = load_32(q + g / 2 * 32);
    return _mm256_and_si256(g % 2 == 0 ? both : _mm256_srli_epi16(both, 4), _mm256_set1_epi8(15));
  }
};
struct DotsQ4K : DotsK {
  static constexpr int64_t kBytes = 144;
  static __m256i codes(const uint8_t* b, int g, const RowCodebook&) { return nibbles_of(b + 16, g); }
};
struct DotsQ5K : DotsK {
  static constexpr int64_t kBytes = 176;
  static __m256i codes(const uint8_t* b, int g, const RowCodebook&) {
    const __m256i fifth = load_32(b + 16);
    const __m256i up = g < 4 ? _mm256_slli_epi16(fifth, 4 - g) : _mm256_srli_epi16(fifth, g - 4);
    return _mm256_or_si256(nibbles_of(b + 48, g), _mm256_and_si256(up, _mm256_set1_epi8(16)));
  }
};
struct DotsQ6K : Dots {
  static constexpr int64_t kNumbers = 256, kBytes = 210;
  static constexpr int kZero = 32;
  static constexpr bool kScalesOf16 = true;
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

/// learned_scale of eight blocks by their first bytes, which are kStride apart: n of them, the others zero.
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
  const Vec signed_scales = (Vec)((VecUint)(splat(scale) * block) ^ (b & 128u) << 24);
  if (n == 8) return signed_scales;
  VecInt lane;
  for (int i = 0; i < 8; ++i) lane[i] = i;
  return (Vec)((VecUint)signed_scales & (VecUint)(lane < static_cast<int>(n)));
}
template <int kBits>
struct DotsLearned : Dots {
  static constexpr int64_t kNumbers = 32, kBytes = 1 + 4 * kBits;
  static constexpr bool kPaired = kBits == 4;
  static void scales(const uint8_t* b, int64_t n, const RowCodebook& row, Vec* to, Vec*) {
    to[0] = learned_scales<kBytes>(b, n, row.scale);
  }
  static void pair(const uint8_t* b, const RowCodebook& row, __m256i* low, __m256i* high) {
    const auto table = [&](const uint8_t* block) {
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(row.tables + (*block & 3) * 16));
    };
    const __m256i tables = _mm256_inserti128_si256(_mm256_castsi128_si256(table(b)), table(b + kBytes), 1);
    __m256i at[2];
    nibbles_of_two(b + 1, b + kBytes + 1, at, at + 1);
    *low = _mm256_shuffle_epi8(tables, at[0]), *high = _mm256_shuffle_epi8(tables, at[1]);
  }
  static __m256i codes(const uint8_t* blocks, int g, const RowCodebook& row) {
    const uint8_t* b = blocks + g * kBytes;
    const int8_t* table = row.tables + (*b & 3) * (1 << kBits);
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

}  // namespace
}  // namespace tern::TERN_ISA_NAMESPACE
#endif
