#pragma once
// Unpacks coded weights to integer codes in registers, for row_dots_impl.h (AVX2 and AVX-512). Only for *_isa.cpp files. A stretch is 256
// consecutive numbers of a row, 8 groups of 32. A vector of codes has kCodeLanes lanes of 16 codes; the groups of its lanes are kApart apart.
// Each weight type is a struct; kBytes bytes hold kNumbers numbers. scales() gives the scales of a stretch's groups, and with kLeasts their
// offsets: one vector, or with kScalesOf16 two, for the groups' first 16 numbers and for their second 16. codes<j>() gives the first 16 codes
// of groups j, j + kApart and so on, and their second 16: from 0 to kMost, or with kAnySign from -128 to 127. kLess (0, 8 or 32) is to be
// subtracted from each code before it is scaled. Layouts: beside the decoders (decode_*_isa.cpp).

#include "kernels/cpu/decode_impl.h"

#if defined(__AVX2__)
namespace tern::TERN_ISA_NAMESPACE {
namespace {

/// The defaults of the types below.
struct Dots {
  static constexpr int kMost = 15, kLess = 0;
  static constexpr bool kAnySign = false, kLeasts = false, kScalesOf16 = false;
  static constexpr bool kBiased = false;  // codes of any sign come with 128 added: not for row_dots
  // What scales() and codes() are given of a stretch, and codes() of its row.
  static const uint8_t* read(const uint8_t* stretch) { return stretch; }
  static const RowCodebook& prepared(const RowCodebook& row) { return row; }
};

/// One number for each of the eight groups of a stretch.
typedef float Eight __attribute__((vector_size(32)));
typedef int32_t EightInt __attribute__((vector_size(32)));
inline Eight eight(float x) { return _mm256_set1_ps(x); }
inline Eight eight_floats(EightInt v) { return __builtin_convertvector(v, Eight); }
inline Eight eight_bytes(__m128i bytes) { return eight_floats((EightInt)_mm256_cvtepu8_epi32(bytes)); }
inline Eight eight_signed_bytes(__m128i bytes) { return eight_floats((EightInt)_mm256_cvtepi8_epi32(bytes)); }

/// Eight half-precision numbers that are kStride bytes apart, as floats.
template <int64_t kStride>
inline Eight half_scales(const uint8_t* at) {
  __m128i h = _mm_cvtsi32_si128(number_at<uint16_t>(at));
  h = _mm_insert_epi16(h, number_at<int16_t>(at + kStride), 1);
  h = _mm_insert_epi16(h, number_at<int16_t>(at + 2 * kStride), 2);
  h = _mm_insert_epi16(h, number_at<int16_t>(at + 3 * kStride), 3);
  h = _mm_insert_epi16(h, number_at<int16_t>(at + 4 * kStride), 4);
  h = _mm_insert_epi16(h, number_at<int16_t>(at + 5 * kStride), 5);
  h = _mm_insert_epi16(h, number_at<int16_t>(at + 6 * kStride), 6);
  h = _mm_insert_epi16(h, number_at<int16_t>(at + 7 * kStride), 7);
#if defined(__AVX512F__)
  return _mm256_maskz_cvtph_ps(0xff, h);
#else
  return halves((VecU16)h);
#endif
}

inline __m128i load_16(const uint8_t* at) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at)); }
inline __m128i load_8_twice(const uint8_t* at) { return _mm_set1_epi64x(number_at<int64_t>(at)); }

#if defined(__AVX512F__)
typedef __m512i Codes;
constexpr int64_t kCodeLanes = 4;
/// A vector whose lane l is of(l).
template <class Of>
inline Codes lanes_of(const Of& of) {
  const __m512i two = _mm512_mask_broadcast_i32x4(_mm512_zextsi128_si512(of(0)), 0xf0, of(1));
  return _mm512_mask_broadcast_i32x4(_mm512_mask_broadcast_i32x4(two, 0xf00, of(2)), 0xf000, of(3));
}
inline Codes every_lane(__m128i x) { return _mm512_maskz_broadcast_i32x4(0xffff, x); }
inline Codes every_byte(int byte) { return _mm512_set1_epi8(static_cast<char>(byte)); }
/// In each lane, byte i of the result is byte at[i] of the lane's 16 bytes.
inline Codes look_up(Codes bytes, Codes at) { return _mm512_shuffle_epi8(bytes, at); }
#else
typedef __m256i Codes;
constexpr int64_t kCodeLanes = 2;
template <class Of>
inline Codes lanes_of(const Of& of) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(of(0)), of(1), 1);
}
inline Codes every_lane(__m128i x) { return _mm256_broadcastsi128_si256(x); }
inline Codes every_byte(int byte) { return _mm256_set1_epi8(static_cast<char>(byte)); }
inline Codes look_up(Codes bytes, Codes at) { return _mm256_shuffle_epi8(bytes, at); }
#endif
constexpr int64_t kApart = 8 / kCodeLanes;

typedef uint16_t Words __attribute__((vector_size(sizeof(Codes))));
typedef uint64_t Longs __attribute__((vector_size(sizeof(Codes))));
// Shifts of 16-bit words, right and left: bits cross between the two bytes of a word.
inline Codes shifted(Codes x, int by) { return (Codes)((Words)x >> static_cast<uint16_t>(by)); }
inline Codes shifted_left(Codes x, int by) { return (Codes)((Words)x << static_cast<uint16_t>(by)); }
/// Lane l shifted right by by[l] bits.
inline Codes shifted_lanes(Codes x, const uint64_t (&by)[4]) {
  Longs each;
  for (int64_t i = 0; i < 2 * kCodeLanes; ++i) each[i] = by[i / 2];
  return (Codes)((Longs)x >> each);
}
/// The lower half of each lane shifted right by `low` bits, its upper half by `high` bits.
inline Codes shifted_halves(Codes x, uint64_t low, uint64_t high) {
  Longs each;
  for (int64_t i = 0; i < 2 * kCodeLanes; ++i) each[i] = i % 2 == 0 ? low : high;
  return (Codes)((Longs)x >> each);
}

/// Loads 16 bytes into each lane; the lanes' addresses are kStride bytes apart.
template <int64_t kStride>
inline Codes load_lanes(const uint8_t* at) {
  return lanes_of([&](int64_t lane) { return load_16(at + lane * kStride); });
}
inline Codes low_nibbles(Codes bytes) { return bytes & every_byte(15); }
inline Codes high_nibbles(Codes bytes) { return low_nibbles(shifted(bytes, 4)); }

struct DotsQ8_0 : Dots {
  static constexpr int64_t kNumbers = 32, kBytes = 34;
  static constexpr bool kAnySign = true;
  static void scales(const uint8_t* b, const RowCodebook&, Eight* to, Eight*) { to[0] = half_scales<kBytes>(b); }
  template <int j>
  static void codes(const uint8_t* b, const RowCodebook&, Codes* first, Codes* second) {
    b += j * kBytes + 2;
    *first = load_lanes<kApart * kBytes>(b), *second = load_lanes<kApart * kBytes>(b + 16);
  }
};
struct DotsQ4_0 : Dots {
  static constexpr int64_t kNumbers = 32, kBytes = 18;
  static constexpr int kLess = 8;
  static void scales(const uint8_t* b, const RowCodebook&, Eight* to, Eight*) { to[0] = half_scales<kBytes>(b); }
  template <int j>
  static void codes(const uint8_t* b, const RowCodebook&, Codes* first, Codes* second) {
    const Codes nibbles = load_lanes<kApart * kBytes>(b + j * kBytes + 2);
    *first = low_nibbles(nibbles), *second = high_nibbles(nibbles);
  }
};
struct DotsQ4_1 : Dots {
  static constexpr int64_t kNumbers = 32, kBytes = 20;
  static constexpr bool kLeasts = true;
  static void scales(const uint8_t* b, const RowCodebook&, Eight* to, Eight* leasts) {
    to[0] = half_scales<kBytes>(b), leasts[0] = half_scales<kBytes>(b + 2);
  }
  template <int j>
  static void codes(const uint8_t* b, const RowCodebook&, Codes* first, Codes* second) {
    const Codes nibbles = load_lanes<kApart * kBytes>(b + j * kBytes + 4);
    *first = low_nibbles(nibbles), *second = high_nibbles(nibbles);
  }
};

/// What Q4_K and Q5_K share: the scales and offsets of eight sub-blocks, and the low four bits of codes.
struct DotsK : Dots {
  static constexpr int64_t kNumbers = 256;
  static constexpr bool kLeasts = true;
  static void scales(const uint8_t* b, const RowCodebook&, Eight* to, Eight* leasts) {
    // Twelve bytes: four each of lo, mid and hi. Scales 0 to 3 are the lower six bits of lo, minima 0 to 3 those of mid. Scales 4 to 7 are the
    // low nibbles of hi below the upper two bits of lo; minima 4 to 7 are the high nibbles of hi below the upper two bits of mid.
    const __m128i all = load_16(b + 4);
    const __m128i nibbles = _mm_srlv_epi32(_mm_shuffle_epi32(all, 0xaa), _mm_setr_epi32(0, 4, 0, 0));
    const __m128i upper = _mm_and_si128(_mm_srli_epi16(all, 2), _mm_set1_epi8(48));
    const __m128i last = _mm_or_si128(_mm_and_si128(nibbles, _mm_set1_epi8(15)), upper);
    const __m128i joined = _mm_unpacklo_epi32(_mm_and_si128(all, _mm_set1_epi8(63)), last);
    to[0] = eight(half(b)) * eight_bytes(joined);
    leasts[0] = eight(-half(b + 2)) * eight_bytes(_mm_unpackhi_epi64(joined, joined));
  }
  /// Each 32 bytes hold two sub-blocks: the even one (even j) in the low nibbles, the odd one in the high nibbles.
  template <int j>
  static void nibbles(const uint8_t* q, Codes* first, Codes* second) {
    q += j / 2 * 32;
    const Codes a = load_lanes<kApart * 16>(q), b = load_lanes<kApart * 16>(q + 16);
    *first = j % 2 == 0 ? low_nibbles(a) : high_nibbles(a), *second = j % 2 == 0 ? low_nibbles(b) : high_nibbles(b);
  }
};
struct DotsQ4K : DotsK {
  static constexpr int64_t kBytes = 144;
  template <int j>
  static void codes(const uint8_t* b, const RowCodebook&, Codes* first, Codes* second) {
    nibbles<j>(b + 16, first, second);
  }
};
struct DotsQ5K : DotsK {
  static constexpr int64_t kBytes = 176;
  static constexpr int kMost = 31;
  template <int j>
  static void codes(const uint8_t* b, const RowCodebook&, Codes* first, Codes* second) {
    nibbles<j>(b + 48, first, second);
    const auto fifth = [](const uint8_t* at) {  // bit g of a byte belongs to sub-block g
      const Codes at_j = shifted_lanes(every_lane(load_16(at)), {0, kApart, 2 * kApart, 3 * kApart});
      return shifted_left(at_j, 4 - j) & every_byte(16);
    };
    *first = *first | fifth(b + 16), *second = *second | fifth(b + 32);
  }
};
struct DotsQ6K : Dots {
  static constexpr int64_t kNumbers = 256, kBytes = 210;
  static constexpr int kMost = 63, kLess = 32;
  static constexpr bool kScalesOf16 = true;
  static void scales(const uint8_t* b, const RowCodebook&, Eight* to, Eight*) {
    const __m128i in_turn = _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
    const __m128i apart = _mm_shuffle_epi8(load_16(b + 192), in_turn);
    const Eight d = eight(half(b + 208));
    to[0] = d * eight_signed_bytes(apart), to[1] = d * eight_signed_bytes(_mm_srli_si128(apart, 8));
  }
  template <int j>
  static void codes(const uint8_t* b, const RowCodebook&, Codes* first, Codes* second) {
    // Group g: its low bits are nibbles at 64·(g / 4) + 32·(g % 2), the low ones if g % 4 < 2; its upper two, from bit 2·(g % 4), at 32·(g / 4).
    constexpr auto group = [](int64_t lane) { return j + lane * kApart; };
    constexpr uint64_t to_nibble[4] = {group(0) % 4 < 2 ? 0 : 4, group(1) % 4 < 2 ? 0 : 4, group(2) % 4 < 2 ? 0 : 4,
                                       group(3) % 4 < 2 ? 0 : 4};
    const auto sixteens = [&](int64_t from) {
      const Codes low =
          lanes_of([&](int64_t lane) { return load_16(b + from + group(lane) / 4 * 64 + group(lane) % 2 * 32); });
      const Codes pairs = lanes_of([&](int64_t lane) { return load_16(b + 128 + from + group(lane) / 4 * 32); });
      const Codes upper = shifted_left(shifted_lanes(pairs, to_nibble), 4 - 2 * (j % 2)) & every_byte(48);
      return low_nibbles(shifted_lanes(low, to_nibble)) | upper;
    };
    *first = sixteens(0), *second = sixteens(16);
  }
};

#if defined(__AVX512VBMI__)

/// Bytes of a vector.
struct alignas(64) VectorBytes {
  uint8_t at[64];
};
inline Codes load_vector(const VectorBytes& bytes) { return _mm512_load_si512(&bytes); }
inline Codes load_64(const uint8_t* at) { return _mm512_loadu_si512(at); }

/// Learned codes. A byte that has a code and the number of the block's table is looked up in one vector with the numbers of all four tables: LC4
/// 16·table + code, as the tables lie; the others 4·code + table, where numbers repeat, so that bits above the code do no harm. The numbers
/// come with 128 added (kBiased). For tiles alone; few rows of x are multiplied by learned_rows_impl.h.
template <int kBits>
struct DotsLearned : Dots {
  static constexpr int64_t kNumbers = 32, kBytes = 1 + 4 * kBits;
  static constexpr bool kAnySign = true, kBiased = true;

  // The blocks of groups j, j + 2, j + 4, j + 6 lie in the 64 bytes of a stretch from first(j) on and, but for LC2, in those from second(j) on.
  static constexpr int64_t first(int64_t j) { return kBits == 3 ? 0 : 8 * j; }
  static constexpr int64_t second(int64_t j) { return kBits == 3 ? 8 * kBytes - 64 : first(j) + 64; }
  static constexpr uint8_t index(int64_t j, int64_t byte) {
    return static_cast<uint8_t>(byte < first(j) + 64 ? byte - first(j) : byte - second(j) + 64);
  }
  /// Byte i of lane l is byte of(i) of group j + 2l.
  template <class Of>
  static constexpr VectorBytes in_lanes(int64_t j, const Of& of) {
    VectorBytes v = {};
    for (int64_t lane = 0; lane < 4; ++lane)
      for (int64_t i = 0; i < 16; ++i) v.at[lane * 16 + i] = index(j, (j + lane * kApart) * kBytes + of(i));
    return v;
  }
  /// Those vectors of a stretch, for j = 0 and 1: most cross a line of the cache, so each is loaded once. LC3 has one pair.
  static constexpr int64_t kPairs = kBits == 3 ? 1 : 2;
  struct Read {
    Codes low[kPairs], high[kBits == 2 ? 1 : kPairs];
    Codes firsts;  // the first byte of each of the eight blocks
  };
  static Read read(const uint8_t* stretch) {
    Read r;
    for (int64_t j = 0; j < kPairs; ++j) {
      r.low[j] = load_64(stretch + first(j));
      if constexpr (kBits != 2) r.high[j] = load_64(stretch + second(j));
    }
    if constexpr (kBits == 2) r.high[0] = r.low[0];  // not used
    static constexpr VectorBytes kFirsts = [] {
      VectorBytes v = {};
      for (int64_t block = 0; block < 8; ++block) v.at[block] = index(0, block * kBytes);
      return v;
    }();
    r.firsts = gather(r, 0, kFirsts);
    return r;
  }
  // By asm, or compilers would load again for each use.
  static Codes gather(const Read& r, int64_t j, const VectorBytes& from) {
    const Codes at = load_vector(from);
    const int64_t pair = kBits == 3 ? 0 : j;
    Codes bytes = r.low[pair];
    if constexpr (kBits == 2)
      asm("vpermb %1, %2, %0" : "=v"(bytes) : "v"(bytes), "v"(at));
    else
      asm("vpermt2b %1, %2, %0" : "+v"(bytes) : "v"(r.high[pair]), "v"(at));
    return bytes;
  }

  static void scales(const Read& b, const RowCodebook& row, Eight* to, Eight*) {
    const EightInt of = (EightInt)_mm256_cvtepu8_epi32((__m128i)__builtin_shufflevector(b.firsts, b.firsts, 0, 1));
    const __m512i which = _mm512_zextsi256_si512((__m256i)(of >> 2));  // the sign, bit 5, does not count
    const __m512 scales =
        _mm512_maskz_permutex2var_ps(0xff, _mm512_loadu_ps(kBlockScales), which, _mm512_loadu_ps(kBlockScales + 16));
    const __m256i sign = _mm256_set1_epi32(static_cast<int>(0x80000000u));
    to[0] =
        eight(row.scale) * (Eight)_mm256_ternarylogic_epi32((__m256i)_mm512_castps512_ps256(scales),
                                                            (__m256i)(of << 24), sign, 0x78);  // scale ^ (of & sign)
  }

  /// The numbers of all tables, as they are looked up.
  static Codes numbers(const RowCodebook& row) {
    static constexpr VectorBytes kPlaces = [] {
      VectorBytes v = {};
      for (int place = 0; place < 64; ++place)
        v.at[place] = static_cast<uint8_t>(kBits == 4 ? place : (place % 4) << kBits | (place / 4 % (1 << kBits)));
      return v;
    }();
    constexpr __mmask64 kThere = kBits == 4 ? ~__mmask64{0} : (__mmask64{1} << (4 << kBits)) - 1;
    const Codes tables = _mm512_maskz_loadu_epi8(kThere, row.tables);
    return every_byte(-128) ^ (Codes)_mm512_maskz_permutexvar_epi8(~__mmask64{0}, load_vector(kPlaces), tables);
  }
  /// What the numbers of a row have in common.
  struct Row {
    Codes numbers;
    float scale;
  };
  static Row prepared(const RowCodebook& row) { return {numbers(row), row.scale}; }

  /// Where bits of `mask` are set those of x, else those of y.
  static Codes chosen(int mask, Codes x, Codes y) { return _mm512_ternarylogic_epi64(x, every_byte(mask), y, 0xe2); }
  /// The lower half of each lane rotated right by `low` bits, its upper half by `high` bits.
  static Codes rotated_halves(Codes x, int64_t low, int64_t high) {
    return _mm512_maskz_rorv_epi64(0xff, x, every_lane(_mm_set_epi64x(high, low)));
  }
  /// Byte i of a lane becomes eight bits of the lane's half that it is in: those from bit `from` + i on.
  static Codes eight_bits_from(Codes x, int64_t from) {
    const int64_t places = 0x0706050403020100 + 0x0101010101010101 * (from + 64);  // bit positions count modulo 64
    const Codes bits = every_lane(_mm_set_epi64x(places + 0x0808080808080808, places));
    return _mm512_maskz_multishift_epi64_epi8(~__mmask64{0}, bits, x);
  }
  template <int j>
  static void codes(const Read& b, const Row& row, Codes* to, Codes* to_second) {
    static constexpr VectorBytes kOwn = [] {  // each lane's block
      VectorBytes v = {};
      for (int64_t i = 0; i < 64; ++i) v.at[i] = static_cast<uint8_t>(j + i / 16 * kApart);
      return v;
    }();
    static constexpr VectorBytes kFirst = in_lanes(j, [](int64_t) { return 0; }),
                                 kCodes = in_lanes(j, [](int64_t i) { return 1 + (kBits == 4 ? i : i % 8); }),
                                 kUpper = in_lanes(j, [](int64_t i) { return kBits == 3 ? 9 + i % 4 : 0; });
    Codes table;
    if constexpr (kBits == 2) {
      table = gather(b, j, kFirst);
    } else {  // one uop in the place of the three of two vectors' bytes
      table = kBits == 4 ? shifted_left(b.firsts, 4) : b.firsts;
      asm("vpermb %0, %1, %0" : "+v"(table) : "v"(load_vector(kOwn)));
    }
    const Codes all = gather(b, j, kCodes);
    Codes at[2];
    if constexpr (kBits == 4) {
      at[0] = chosen(15, all, table), at[1] = chosen(15, shifted(all, 4), table);
    } else {
      at[0] = chosen(12, rotated_halves(all, 62, 0), table), at[1] = chosen(12, rotated_halves(all, 2, 4), table);
      if constexpr (kBits == 3) {
        const Codes upper = gather(b, j, kUpper);  // bit n: of number n
        at[0] = chosen(16, eight_bits_from(upper, -4), at[0]), at[1] = chosen(16, eight_bits_from(upper, 12), at[1]);
      }
    }
    *to = _mm512_maskz_permutexvar_epi8(~__mmask64{0}, at[0], row.numbers);
    *to_second = _mm512_maskz_permutexvar_epi8(~__mmask64{0}, at[1], row.numbers);
  }
};

#else

/// The signed scale of a block, for each value of its first byte (learned_codes.h).
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
/// learned_scale of eight blocks, whose first bytes are kStride bytes apart.
template <int64_t kStride>
inline Eight learned_scales(const uint8_t* at, float scale) {
  const auto of = [&](int block) { return kSignedScales.of[at[block * kStride]]; };
  const Eight blocks = {of(0), of(1), of(2), of(3), of(4), of(5), of(6), of(7)};
  return eight(scale) * blocks;
}
template <int kBits>
struct DotsLearned : Dots {
  static constexpr int64_t kNumbers = 32, kBytes = 1 + 4 * kBits;
  static constexpr bool kAnySign = true;
  static void scales(const uint8_t* b, const RowCodebook& row, Eight* to, Eight*) {
    to[0] = learned_scales<kBytes>(b, row.scale);
  }
  /// A block's table, in the first 2^kBits bytes of the result.
  static __m128i table_of(const uint8_t* block, const RowCodebook& row) {
    const int8_t* table = row.tables + (*block & 3) * (1 << kBits);
    if (kBits == 4) return load_16(reinterpret_cast<const uint8_t*>(table));
    int32_t four;
    __builtin_memcpy(&four, table, 4);
    return _mm_cvtsi32_si128(four);
  }
  template <int j>
  static void codes(const uint8_t* blocks, const RowCodebook& row, Codes* first, Codes* second) {
    const auto block = [&](int64_t lane) { return blocks + (j + lane * kApart) * kBytes; };
    const Codes tables = lanes_of([&](int64_t lane) { return table_of(block(lane), row); });
    Codes at[2];
    if constexpr (kBits == 4) {
      const Codes nibbles = load_lanes<kApart * kBytes>(block(0) + 1);
      at[0] = low_nibbles(nibbles), at[1] = high_nibbles(nibbles);
    } else {
      const Codes pairs = lanes_of([&](int64_t lane) { return load_8_twice(block(lane) + 1); });
      at[0] = shifted_halves(pairs, 0, 2) & every_byte(3), at[1] = shifted_halves(pairs, 4, 6) & every_byte(3);
    }
    *first = look_up(tables, at[0]), *second = look_up(tables, at[1]);
  }
};
template <>
struct DotsLearned<3> : Dots {
  static constexpr int64_t kNumbers = 32, kBytes = 13;
  static constexpr bool kAnySign = true;
  static void scales(const uint8_t* b, const RowCodebook& row, Eight* to, Eight*) {
    to[0] = learned_scales<kBytes>(b, row.scale);
  }
  /// The tables with the levels of 0, 4, 1, 5, 2, 6, 3, 7: a place is twice a code's lower two bits and its upper one.
  struct Row {
    alignas(32) int8_t tables[32];
  };
  static Row prepared(const RowCodebook& row) {
    const __m128i order = _mm_setr_epi8(0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15);
    Row r;
    for (int64_t two = 0; two < 32; two += 16)
      _mm_store_si128(reinterpret_cast<__m128i*>(r.tables + two),
                      _mm_shuffle_epi8(load_16(reinterpret_cast<const uint8_t*>(row.tables) + two), order));
    return r;
  }
  /// Which bytes a look-up in 16 bytes with a lane's block takes: of(i) of the block for byte i.
  struct Places {
    alignas(64) int8_t at[sizeof(Codes)];
  };
  // The 16 bytes begin with the block; those of the last block of a stretch end with it, so that nothing behind it is read.
  static constexpr int64_t before(int64_t j, int64_t lane) { return j + lane * kApart == 7 ? 3 : 0; }
  template <class Of>
  static constexpr Places places(int64_t j, const Of& of) {
    Places p = {};
    for (int64_t i = 0; i < static_cast<int64_t>(sizeof p.at); ++i)
      p.at[i] = static_cast<int8_t>(before(j, i / 16) + of(i % 16));
    return p;
  }
  static Codes placed(Codes blocks, const Places& places) {
    Codes at;
    __builtin_memcpy(&at, places.at, sizeof at);
    return look_up(blocks, at);
  }
  template <int j>
  static void codes(const uint8_t* blocks, const Row& row, Codes* first, Codes* second) {
    static constexpr Places kPairs = places(j, [](int64_t i) { return 1 + i % 8; }),
                            kUpper[2] = {places(j, [](int64_t i) { return 9 + i / 8; }),
                                         places(j, [](int64_t i) { return 11 + i / 8; })};
    typedef uint8_t Bytes __attribute__((vector_size(sizeof(Codes))));
    const auto block = [&](int64_t lane) { return blocks + (j + lane * kApart) * kBytes; };
    const auto table = [&](int64_t lane) {
      return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(row.tables + (*block(lane) & 3) * 8));
    };
    const Codes tables = lanes_of(table);
    const Codes all = lanes_of([&](int64_t lane) { return load_16(block(lane) - before(j, lane)); });
    const Bytes bit = (Bytes)every_lane(_mm_set1_epi64x(static_cast<int64_t>(0x8040201008040201)));
    // Minus one where the upper bit is set.
    const auto upper = [&](const Places& of) { return ((Bytes)placed(all, of) & bit) == bit; };
    const Codes pairs = placed(all, kPairs), twice = (Codes)((Bytes)pairs + (Bytes)pairs);
    const auto place = [&](Codes lower, const Places& of) {
      return (Codes)((Bytes)(lower & every_byte(6)) - (Bytes)upper(of));
    };
    *first = look_up(tables, place(shifted_halves(twice, 0, 2), kUpper[0]));
    *second = look_up(tables, place(shifted_halves(pairs, 3, 5), kUpper[1]));
  }
};

#endif

}  // namespace
}  // namespace tern::TERN_ISA_NAMESPACE
#endif
