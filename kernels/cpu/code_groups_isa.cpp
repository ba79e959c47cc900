// Blocks to integers and their scales, type by type. Layouts: beside the decoders (decode_*_isa.cpp). Loops are unrolled so
// that shifts of bytes are by constants: no set has one by a variable.

#include "kernels/cpu/coded_int8_table.h"
#include "kernels/cpu/decode_impl.h"

namespace tern::TERN_ISA_NAMESPACE {
namespace {

typedef uint8_t Bytes __attribute__((vector_size(16)));

inline Bytes load_16(const uint8_t* at) {
  Bytes b;
  __builtin_memcpy(&b, at, 16);
  return b;
}
inline Bytes shifted(Bytes b, int by) { return b >> static_cast<uint8_t>(by); }
inline void store_16(int8_t* at, Bytes b) { __builtin_memcpy(at, &b, 16); }

/// Bit i of 16 in byte i: zero or `as`.
inline Bytes bits_as(uint16_t bits, uint8_t as) {
  const Bytes each = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
#if defined(__AVX2__)
  const __m128i first_then_second = _mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
  const Bytes all = (Bytes)_mm_shuffle_epi8(_mm_cvtsi32_si128(bits), first_then_second);
#else
  const auto low = static_cast<uint8_t>(bits), high = static_cast<uint8_t>(bits >> 8);
  const Bytes all = {low, low, low, low, low, low, low, low, high, high, high, high, high, high, high, high};
#endif
  return (Bytes)((all & each) != 0) & as;
}

inline void scale_32(CodeGroups& out, int64_t group, float scale) {
  out.scales[2 * group] = out.scales[2 * group + 1] = scale;
  out.leasts[2 * group] = out.leasts[2 * group + 1] = 0;
}
inline void scale_32(CodeGroups& out, int64_t group, float scale, float least) {
  out.scales[2 * group] = out.scales[2 * group + 1] = scale;
  out.leasts[2 * group] = out.leasts[2 * group + 1] = least;
  out.has_leasts = true;
}
inline void scale_64(CodeGroups& out, int64_t n, float scale, float least) {
  scale_32(out, 2 * n, scale, least);
  scale_32(out, 2 * n + 1, scale, least);
}

void groups_q8_0(const uint8_t* b, int64_t count, CodeGroups& out) {
  for (int64_t n = 0; n < count; ++n, b += 34) {
    scale_32(out, n, half(b));
    __builtin_memcpy(out.codes + 32 * n, b + 2, 32);
  }
}
/// 16 bytes of nibbles, low ones first, `less` subtracted.
inline void nibbles(const uint8_t* q, uint8_t less, int8_t* out) {
  const Bytes b = load_16(q);
  store_16(out, (b & 15) - less);
  store_16(out + 16, (b >> 4) - less);
}
inline void nibbles_and_fifth(const uint8_t* q, uint32_t fifth, uint8_t less, int8_t* out) {
  const Bytes b = load_16(q);
  store_16(out, ((b & 15) | bits_as(static_cast<uint16_t>(fifth), 16)) - less);
  store_16(out + 16, ((b >> 4) | bits_as(static_cast<uint16_t>(fifth >> 16), 16)) - less);
}
void groups_q4_0(const uint8_t* b, int64_t count, CodeGroups& out) {
  for (int64_t n = 0; n < count; ++n, b += 18) scale_32(out, n, half(b)), nibbles(b + 2, 8, out.codes + 32 * n);
}
void groups_q4_1(const uint8_t* b, int64_t count, CodeGroups& out) {
  for (int64_t n = 0; n < count; ++n, b += 20)
    scale_32(out, n, half(b), half(b + 2)), nibbles(b + 4, 0, out.codes + 32 * n);
}
void groups_q5_0(const uint8_t* b, int64_t count, CodeGroups& out) {
  for (int64_t n = 0; n < count; ++n, b += 22) {
    scale_32(out, n, half(b));
    nibbles_and_fifth(b + 6, number_at<uint32_t>(b + 2), 16, out.codes + 32 * n);
  }
}
void groups_q5_1(const uint8_t* b, int64_t count, CodeGroups& out) {
  for (int64_t n = 0; n < count; ++n, b += 24) {
    scale_32(out, n, half(b), half(b + 2));
    nibbles_and_fifth(b + 8, number_at<uint32_t>(b + 4), 0, out.codes + 32 * n);
  }
}

constexpr int8_t kFp4[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
constexpr int8_t kIq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

/// The entries of 16 bytes of nibbles in a table of 16.
inline void look_up_nibbles_in(const int8_t* numbers, const uint8_t* q, int8_t* out) {
#if defined(__AVX2__)
  const __m128i table = _mm_loadu_si128(reinterpret_cast<const __m128i*>(numbers));
  const Bytes b = load_16(q);
  store_16(out, (Bytes)_mm_shuffle_epi8(table, (__m128i)(b & 15)));
  store_16(out + 16, (Bytes)_mm_shuffle_epi8(table, (__m128i)(b >> 4)));
#else
  for (int i = 0; i < 16; ++i) out[i] = numbers[q[i] & 15], out[16 + i] = numbers[q[i] >> 4];
#endif
}
void groups_iq4_nl(const uint8_t* b, int64_t count, CodeGroups& out) {
  for (int64_t n = 0; n < count; ++n, b += 18)
    scale_32(out, n, half(b)), look_up_nibbles_in(kIq4, b + 2, out.codes + 32 * n);
}
void groups_mxfp4(const uint8_t* b, int64_t count, CodeGroups& out) {
  for (int64_t n = 0; n < count; ++n, b += 17)
    scale_32(out, n, half_power_at(b)), look_up_nibbles_in(kFp4, b + 1, out.codes + 32 * n);
}
void groups_iq4_xs(const uint8_t* b, int64_t count, CodeGroups& out) {
  if (count == 0) return;
  const float d = half(b);
  const uint32_t upper = number_at<uint16_t>(b + 2);
  for (int sub = 0; sub < 8; ++sub) {
    const int scale = (b[4 + sub / 2] >> (sub % 2 * 4) & 15) | static_cast<int>(upper >> 2 * sub & 3) << 4;
    scale_32(out, sub, d * static_cast<float>(scale - 32));
    look_up_nibbles_in(kIq4, b + 8 + sub * 16, out.codes + 32 * sub);
  }
}

void groups_q2_k(const uint8_t* b, int64_t count, CodeGroups& out) {
  if (count == 0) return;
  const float d = half(b + 80), dmin = half(b + 82);
  out.by_16 = out.has_leasts = true;
#pragma GCC unroll 16
  for (int sub = 0; sub < 16; ++sub) {
    out.scales[sub] = d * static_cast<float>(b[sub] & 15);
    out.leasts[sub] = -(dmin * static_cast<float>(b[sub] >> 4));
    store_16(out.codes + 16 * sub, shifted(load_16(b + 16 + sub / 8 * 32 + sub % 2 * 16), sub / 2 % 4 * 2) & 3);
  }
}
void groups_q3_k(const uint8_t* b, int64_t count, CodeGroups& out) {
  if (count == 0) return;
  const float d = half(b + 108);
  const uint8_t* packed = b + 96;
  out.by_16 = true;
#pragma GCC unroll 16
  for (int sub = 0; sub < 16; ++sub) {
    const int low = packed[sub % 8] >> sub / 8 * 4 & 15, high = packed[8 + sub % 4] >> sub / 4 * 2 & 3;
    out.scales[sub] = d * static_cast<float>((low | high << 4) - 32);
    out.leasts[sub] = 0;
    const Bytes pairs = shifted(load_16(b + 32 + sub / 8 * 32 + sub % 2 * 16), sub / 2 % 4 * 2) & 3;
    const Bytes bit = shifted(load_16(b + sub % 2 * 16), sub / 2) & 1;
    store_16(out.codes + 16 * sub, pairs + (bit << 2) - 4);
  }
}
/// Sub-blocks of 32 of Q4_K and Q5_K: decode_k_isa.cpp says where the twelve bytes have their scales and minima.
inline void scale_min_32(const uint8_t* b, float d, float dmin, CodeGroups& out) {
  for (int i = 0; i < 4; ++i) {
    const int lo = b[i], mid = b[4 + i], hi = b[8 + i];
    scale_32(out, i, d * static_cast<float>(lo & 63), -(dmin * static_cast<float>(mid & 63)));
    scale_32(out, i + 4, d * static_cast<float>((hi & 15) | (lo >> 2 & 48)),
             -(dmin * static_cast<float>((hi >> 4) | (mid >> 2 & 48))));
  }
}
void groups_q4_k(const uint8_t* b, int64_t count, CodeGroups& out) {
  if (count == 0) return;
  scale_min_32(b + 4, half(b), half(b + 2), out);
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {  // 16 bytes: numbers of sub-blocks i/2·2 and the next
    const Bytes q = load_16(b + 16 + 16 * i);
    int8_t* at = out.codes + i / 2 * 64 + i % 2 * 16;
    store_16(at, q & 15);
    store_16(at + 32, q >> 4);
  }
}
void groups_q5_k(const uint8_t* b, int64_t count, CodeGroups& out) {
  if (count == 0) return;
  scale_min_32(b + 4, half(b), half(b + 2), out);
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    const Bytes q = load_16(b + 48 + 16 * i), fifth = shifted(load_16(b + 16 + i % 2 * 16), i / 2 * 2);
    int8_t* at = out.codes + i / 2 * 64 + i % 2 * 16;
    store_16(at, (q & 15) | (fifth & 1) << 4);
    store_16(at + 32, (q >> 4) | (fifth >> 1 & 1) << 4);
  }
}
void groups_q6_k(const uint8_t* b, int64_t count, CodeGroups& out) {
  if (count == 0) return;
  const float d = half(b + 208);
  out.by_16 = true;
#pragma GCC unroll 16
  for (int sub = 0; sub < 16; ++sub) {
    out.scales[sub] = d * static_cast<float>(static_cast<int8_t>(b[192 + sub]));
    out.leasts[sub] = 0;
    const int half = sub / 8, row = sub / 2 % 4, lane = sub % 2 * 16;
    const Bytes low = shifted(load_16(b + half * 64 + row % 2 * 32 + lane), row / 2 * 4) & 15;
    const Bytes high = shifted(load_16(b + 128 + half * 32 + lane), row * 2) & 3;
    store_16(out.codes + 16 * sub, (low | high << 4) - 32);
  }
}

void groups_u4(const uint8_t* b, int64_t count, CodeGroups& out) {
  for (int64_t n = 0; n < count; ++n, b += 40) {
    scale_64(out, n, number_at<float>(b), number_at<float>(b + 4));
    for (int part = 0; part < 32; part += 16) {
      const Bytes q = load_16(b + 8 + part);
      store_16(out.codes + 64 * n + part, q & 15);
      store_16(out.codes + 64 * n + 32 + part, q >> 4);
    }
  }
}
void groups_u3(const uint8_t* b, int64_t count, CodeGroups& out) {
  for (int64_t n = 0; n < count; ++n, b += 32) {
    scale_64(out, n, number_at<float>(b), number_at<float>(b + 4));
    uint64_t upper;
    __builtin_memcpy(&upper, b + 24, 8);
    typedef uint64_t Words __attribute__((vector_size(16)));
    const Bytes twice = (Bytes)Words{upper, upper};
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {  // bits 2j and 2j + 1 of the eight bytes: numbers 16j and 16j + 8 on
      const auto low = static_cast<uint8_t>(1 << 2 * j), high = static_cast<uint8_t>(2 << 2 * j);
      const Bytes bit = {low, low, low, low, low, low, low, low, high, high, high, high, high, high, high, high};
      store_16(out.codes + 64 * n + 16 * j, (shifted(load_16(b + 8), 2 * j) & 3) | ((Bytes)((twice & bit) != 0) & 4));
    }
  }
}
void groups_u2(const uint8_t* b, int64_t count, CodeGroups& out) {
  for (int64_t n = 0; n < count; ++n, b += 24) {
    scale_64(out, n, number_at<float>(b), number_at<float>(b + 4));
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) store_16(out.codes + 64 * n + 16 * j, shifted(load_16(b + 8), 2 * j) & 3);
  }
}

/// A learned table, its levels again behind them up to 16, in one vector.
template <int kLevels>
inline Bytes table_of(uint8_t byte, const RowCodebook& row) {
  const int8_t* from = row.tables + (byte & 3) * kLevels;
  uint8_t table[16];
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += kLevels) __builtin_memcpy(table + i, from, kLevels);
  return load_16(table);
}
inline Bytes look_up_16(Bytes table, Bytes codes) {
#if defined(__AVX2__)
  return (Bytes)_mm_shuffle_epi8((__m128i)table, (__m128i)codes);
#else
  Bytes out;
  for (int i = 0; i < 16; ++i) out[i] = table[codes[i]];
  return out;
#endif
}
/// Codes 16·half to 16·half + 15 of the 32 pairs in 8 bytes, which stand twice in `twice`.
inline Bytes pairs_16(Bytes twice, int half) {
  const Bytes second = {0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255};
  return ((shifted(twice, 4 * half) & ~second) | (shifted(twice, 4 * half + 2) & second)) & 3;
}
inline Bytes load_8_twice(const uint8_t* at) {
  uint8_t both[16];
  __builtin_memcpy(both, at, 8), __builtin_memcpy(both + 8, at, 8);
  return load_16(both);
}

void groups_lc4(const uint8_t* b, int64_t count, const RowCodebook& row, CodeGroups& out) {
  for (int64_t n = 0; n < count; ++n, b += 17) {
    scale_32(out, n, learned_scale(b[0], row));
    const Bytes table = table_of<16>(b[0], row), q = load_16(b + 1);
    store_16(out.codes + 32 * n, look_up_16(table, q & 15));
    store_16(out.codes + 32 * n + 16, look_up_16(table, q >> 4));
  }
}
void groups_lc3(const uint8_t* b, int64_t count, const RowCodebook& row, CodeGroups& out) {
  for (int64_t n = 0; n < count; ++n, b += 13) {
    scale_32(out, n, learned_scale(b[0], row));
    const Bytes table = table_of<8>(b[0], row), twice = load_8_twice(b + 1);
    const auto upper = number_at<uint32_t>(b + 9);
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      const Bytes third = bits_as(static_cast<uint16_t>(upper >> 16 * half), 4);
      store_16(out.codes + 32 * n + 16 * half, look_up_16(table, pairs_16(twice, half) | third));
    }
  }
}
void groups_lc2(const uint8_t* b, int64_t count, const RowCodebook& row, CodeGroups& out) {
  for (int64_t n = 0; n < count; ++n, b += 9) {
    scale_32(out, n, learned_scale(b[0], row));
    const Bytes table = table_of<4>(b[0], row), twice = load_8_twice(b + 1);
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half)
      store_16(out.codes + 32 * n + 16 * half, look_up_16(table, pairs_16(twice, half)));
  }
}

constexpr CodeGroupsTable table_of_groups() {
  CodeGroupsTable t = {};
  const auto set = [&](WeightType type, GroupBlocks f) { t.of[static_cast<int>(type)] = f; };
  set(WeightType::q8_0, groups_q8_0), set(WeightType::q4_0, groups_q4_0), set(WeightType::q4_1, groups_q4_1);
  set(WeightType::q5_0, groups_q5_0), set(WeightType::q5_1, groups_q5_1), set(WeightType::iq4_nl, groups_iq4_nl);
  set(WeightType::mxfp4, groups_mxfp4);
  set(WeightType::iq4_xs, groups_iq4_xs), set(WeightType::q2_k, groups_q2_k), set(WeightType::q3_k, groups_q3_k);
  set(WeightType::q4_k, groups_q4_k), set(WeightType::q5_k, groups_q5_k), set(WeightType::q6_k, groups_q6_k);
  set(WeightType::u4, groups_u4), set(WeightType::u3, groups_u3), set(WeightType::u2, groups_u2);
  const auto set_learned = [&](WeightType type, GroupLearnedBlocks f) { t.of_learned[static_cast<int>(type)] = f; };
  set_learned(WeightType::lc4, groups_lc4), set_learned(WeightType::lc3, groups_lc3);
  set_learned(WeightType::lc2, groups_lc2);
  return t;
}

}  // namespace

const CodeGroupsTable code_groups_table = table_of_groups();

}  // namespace tern::TERN_ISA_NAMESPACE
