#pragma once
// How types of coded weights give their integers to row_dots_impl.h in registers (AVX2). Only for *_isa.cpp files.
// A type is a struct: kBytes hold kNumbers neighbours. scales(): those of the 8 groups of 32 of 256 neighbours (kScalesOf16: of
// their first sixteens, then of their second ones), and with kLeasts the offsets. codes<j>(): the first sixteen integers of groups
// j and j + 4, then their second sixteen, from 0 to kMost; kAnySign: from -128 to 127. Layouts: beside the decoders
// (decode_*_isa.cpp).

#include "kernels/cpu/decode_impl.h"

#if defined(__AVX2__) && !defined(__AVX512F__)
namespace tern::TERN_ISA_NAMESPACE {
namespace {

/// What most types are.
struct Dots {
  static constexpr int kMost = 15;
  static constexpr bool kAnySign = false, kLeasts = false, kScalesOf16 = false;
  static constexpr int64_t kTogether = 1;  // stretches of 256 whose scales are made before their products
};

/// Eight halves that are kStride bytes apart.
template <int64_t kStride>
inline Vec half_scales(const uint8_t* at) {
  __m128i h = _mm_cvtsi32_si128(number_at<uint16_t>(at));
  h = _mm_insert_epi16(h, number_at<int16_t>(at + kStride), 1);
  h = _mm_insert_epi16(h, number_at<int16_t>(at + 2 * kStride), 2);
  h = _mm_insert_epi16(h, number_at<int16_t>(at + 3 * kStride), 3);
  h = _mm_insert_epi16(h, number_at<int16_t>(at + 4 * kStride), 4);
  h = _mm_insert_epi16(h, number_at<int16_t>(at + 5 * kStride), 5);
  h = _mm_insert_epi16(h, number_at<int16_t>(at + 6 * kStride), 6);
  h = _mm_insert_epi16(h, number_at<int16_t>(at + 7 * kStride), 7);
  return halves((VecU16)h);
}

inline __m128i load_16(const uint8_t* at) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at)); }
inline __m256i joined(__m128i first, __m128i second) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(first), second, 1);
}
/// 16 bytes at each of two places.
inline __m256i load_two(const uint8_t* first, const uint8_t* second) { return joined(load_16(first), load_16(second)); }
inline __m256i low_nibbles(__m256i bytes) { return _mm256_and_si256(bytes, _mm256_set1_epi8(15)); }
inline __m256i high_nibbles(__m256i bytes) { return low_nibbles(_mm256_srli_epi16(bytes, 4)); }

struct DotsQ8_0 : Dots {
  static constexpr int64_t kNumbers = 32, kBytes = 34;
  static constexpr bool kAnySign = true;
  static void scales(const uint8_t* b, const RowCodebook&, Vec* to, Vec*) { to[0] = half_scales<kBytes>(b); }
  template <int j>
  static void codes(const uint8_t* b, const RowCodebook&, __m256i* first, __m256i* second) {
    b += j * kBytes + 2;
    *first = load_two(b, b + 4 * kBytes), *second = load_two(b + 16, b + 4 * kBytes + 16);
  }
};
struct DotsQ4_0 : Dots {
  static constexpr int64_t kNumbers = 32, kBytes = 18;
  static constexpr bool kLeasts = true;
  static void scales(const uint8_t* b, const RowCodebook&, Vec* to, Vec* leasts) {
    to[0] = half_scales<kBytes>(b), leasts[0] = to[0] * splat(-8.0f);
  }
  template <int j>
  static void codes(const uint8_t* b, const RowCodebook&, __m256i* first, __m256i* second) {
    const __m256i both = load_two(b + j * kBytes + 2, b + (j + 4) * kBytes + 2);
    *first = low_nibbles(both), *second = high_nibbles(both);
  }
};
struct DotsQ4_1 : Dots {
  static constexpr int64_t kNumbers = 32, kBytes = 20;
  static constexpr bool kLeasts = true;
  static void scales(const uint8_t* b, const RowCodebook&, Vec* to, Vec* leasts) {
    to[0] = half_scales<kBytes>(b), leasts[0] = half_scales<kBytes>(b + 2);
  }
  template <int j>
  static void codes(const uint8_t* b, const RowCodebook&, __m256i* first, __m256i* second) {
    const __m256i both = load_two(b + j * kBytes + 4, b + (j + 4) * kBytes + 4);
    *first = low_nibbles(both), *second = high_nibbles(both);
  }
};

/// Blocks of Q4_K and Q5_K: scales and offsets of eight sub-blocks.
struct DotsK : Dots {
  static constexpr int64_t kNumbers = 256;
  static constexpr bool kLeasts = true;
  static void scales(const uint8_t* b, const RowCodebook&, Vec* to, Vec* leasts) {
    // Twelve bytes, in fours lo, mid, hi: scales and minima 0 to 3 are the lower six bits of lo and of mid; 4 to 7 are the low and
    // the high nibbles of hi, with the upper two bits of lo and of mid above them.
    const __m128i all = load_16(b + 4);
    const __m128i nibbles = _mm_srlv_epi32(_mm_shuffle_epi32(all, 0xaa), _mm_setr_epi32(0, 4, 0, 0));
    const __m128i upper = _mm_and_si128(_mm_srli_epi16(all, 2), _mm_set1_epi8(48));
    const __m128i last = _mm_or_si128(_mm_and_si128(nibbles, _mm_set1_epi8(15)), upper);
    const __m128i both = _mm_unpacklo_epi32(_mm_and_si128(all, _mm_set1_epi8(63)), last);
    const auto floats = [](__m128i eight) { return floats_of((VecInt)_mm256_cvtepu8_epi32(eight)); };
    to[0] = splat(half(b)) * floats(both);
    leasts[0] = splat(-half(b + 2)) * floats(_mm_unpackhi_epi64(both, both));
  }
  /// Sub-blocks j and j + 4: the low or the high nibbles of 32 bytes, as j is even or odd.
  template <int j>
  static void nibbles(const uint8_t* q, __m256i* first, __m256i* second) {
    q += j / 2 * 32;
    const __m256i a = load_two(q, q + 64), b = load_two(q + 16, q + 80);
    *first = j % 2 == 0 ? low_nibbles(a) : high_nibbles(a), *second = j % 2 == 0 ? low_nibbles(b) : high_nibbles(b);
  }
};
struct DotsQ4K : DotsK {
  static constexpr int64_t kBytes = 144;
  template <int j>
  static void codes(const uint8_t* b, const RowCodebook&, __m256i* first, __m256i* second) {
    nibbles<j>(b + 16, first, second);
  }
};
struct DotsQ5K : DotsK {
  static constexpr int64_t kBytes = 176;
  static constexpr int kMost = 31;
  template <int j>
  static void codes(const uint8_t* b, const RowCodebook&, __m256i* first, __m256i* second) {
    nibbles<j>(b + 48, first, second);
    const auto fifth = [](const uint8_t* at) {  // bit j is that of sub-block j, or of j + 4
      const __m256i twice = _mm256_broadcastsi128_si256(load_16(at));
      const __m256i bit_j = _mm256_srlv_epi32(twice, _mm256_setr_epi32(0, 0, 0, 0, 4, 4, 4, 4));
      return _mm256_and_si256(_mm256_slli_epi16(bit_j, 4 - j), _mm256_set1_epi8(16));
    };
    *first = _mm256_or_si256(*first, fifth(b + 16)), *second = _mm256_or_si256(*second, fifth(b + 32));
  }
};
struct DotsQ6K : Dots {
  static constexpr int64_t kNumbers = 256, kBytes = 210;
  static constexpr int kMost = 63;
  static constexpr bool kLeasts = true, kScalesOf16 = true;
  static void scales(const uint8_t* b, const RowCodebook&, Vec* to, Vec* leasts) {
    const __m128i in_turn = _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
    const __m128i apart = _mm_shuffle_epi8(load_16(b + 192), in_turn);
    const Vec d = splat(half(b + 208));
    to[0] = d * floats_of((VecInt)_mm256_cvtepi8_epi32(apart));
    to[1] = d * floats_of((VecInt)_mm256_cvtepi8_epi32(_mm_srli_si128(apart, 8)));
    leasts[0] = to[0] * splat(-32.0f), leasts[1] = to[1] * splat(-32.0f);
  }
  template <int j>
  static void codes(const uint8_t* b, const RowCodebook&, __m256i* first, __m256i* second) {
    const auto sixteens = [&](int lane) {
      const uint8_t *low = b + j % 2 * 32 + lane, *pairs = b + 128 + lane;
      const __m256i q = load_two(low, low + 64), up = load_two(pairs, pairs + 32);
      const __m256i at_4 = j < 2 ? _mm256_slli_epi16(up, 4 - 2 * j) : _mm256_srli_epi16(up, 2 * j - 4);
      const __m256i upper = _mm256_and_si256(at_4, _mm256_set1_epi8(48));
      return _mm256_or_si256(j < 2 ? low_nibbles(q) : high_nibbles(q), upper);
    };
    *first = sixteens(0), *second = sixteens(16);
  }
};

/// By a block's first byte: its sign and scale (learned_codes.h).
struct SignedScales {
  float of[256];
};
constexpr SignedScales signed_scales() {
  SignedScales scales = {};
  for (int byte = 0; byte < 256; ++byte)
    scales.of[byte] = byte < 128 ? kBlockScales[byte >> 2] : -kBlockScales[byte >> 2 & 31];
  return scales;
}
constexpr SignedScales kSignedScales = signed_scales();
/// learned_scale of eight blocks by their first bytes, which are kStride apart.
template <int64_t kStride>
inline Vec learned_scales(const uint8_t* at, float scale) {
  const auto of = [&](int block) { return kSignedScales.of[at[block * kStride]]; };
  const Vec blocks = {of(0), of(1), of(2), of(3), of(4), of(5), of(6), of(7)};
  return splat(scale) * blocks;
}
template <int kBits>
struct DotsLearned : Dots {
  static constexpr int64_t kNumbers = 32, kBytes = 1 + 4 * kBits;
  static constexpr int64_t kTogether = 2;  // LC4: 9 -> 13 billion products a second of one core, one row of x
  static constexpr bool kAnySign = true;
  static void scales(const uint8_t* b, const RowCodebook& row, Vec* to, Vec*) {
    to[0] = learned_scales<kBytes>(b, row.scale);
  }
  /// A block's table, in the first 2^kBits bytes at least.
  static __m128i table_of(const uint8_t* block, const RowCodebook& row) {
    const int8_t* table = row.tables + (*block & 3) * (1 << kBits);
    if (kBits == 4) return load_16(reinterpret_cast<const uint8_t*>(table));
    if (kBits == 3) return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(table));
    int32_t four;
    __builtin_memcpy(&four, table, 4);
    return _mm_cvtsi32_si128(four);
  }
  /// 64 bits at each of two places, twice each.
  static __m256i two_twice(const uint8_t* a, const uint8_t* b) {
    return joined(_mm_set1_epi64x(number_at<int64_t>(a)), _mm_set1_epi64x(number_at<int64_t>(b)));
  }
  template <int j>
  static void codes(const uint8_t* blocks, const RowCodebook& row, __m256i* first, __m256i* second) {
    const uint8_t *a = blocks + j * kBytes, *b = blocks + (j + 4) * kBytes;
    const __m256i tables = joined(table_of(a, row), table_of(b, row));
    __m256i at[2];
    if constexpr (kBits == 4) {
      const __m256i both = load_two(a + 1, b + 1);
      at[0] = low_nibbles(both), at[1] = high_nibbles(both);
    } else {
      const __m256i pairs = two_twice(a + 1, b + 1), three = _mm256_set1_epi8(3);
      at[0] = _mm256_and_si256(_mm256_srlv_epi64(pairs, _mm256_setr_epi64x(0, 2, 0, 2)), three);
      at[1] = _mm256_and_si256(_mm256_srlv_epi64(pairs, _mm256_setr_epi64x(4, 6, 4, 6)), three);
    }
    if constexpr (kBits == 3) {
      const __m256i upper =
          joined(_mm_set1_epi32(number_at<int32_t>(a + 9)), _mm_set1_epi32(number_at<int32_t>(b + 9)));
      const __m256i each = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201));
      const __m256i bytes = _mm256_setr_epi64x(0, 0x0101010101010101, 0, 0x0101010101010101);
      for (int half = 0; half < 2; ++half) {
        const __m256i spread =
            _mm256_shuffle_epi8(upper, _mm256_add_epi8(bytes, _mm256_set1_epi8(static_cast<char>(2 * half))));
        const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(spread, each), each);
        at[half] = _mm256_or_si256(at[half], _mm256_and_si256(set, _mm256_set1_epi8(4)));
      }
    }
    *first = _mm256_shuffle_epi8(tables, at[0]), *second = _mm256_shuffle_epi8(tables, at[1]);
  }
};

}  // namespace
}  // namespace tern::TERN_ISA_NAMESPACE
#endif
