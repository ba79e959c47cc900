// GGUF's types of 32 numbers with one f16 scale d, of which some have an f16 minimum m: Q8_0, Q4_0, Q4_1, Q5_0, Q5_1,
// IQ4_NL; and MXFP4, whose scale is a power of two. In 16 bytes of nibbles the low ones are numbers 0 to 15, the high ones 16 to 31. A fifth bit of number i is
// bit i of 32. Source: gguf 0.19, quants.py (facts of the layouts; the judge of the bits).

#include "kernels/cpu/decode_impl.h"

namespace tern::TERN_ISA_NAMESPACE {
namespace {

constexpr float kFp4Table[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
constexpr float kTable[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

}  // namespace

// d; 32 × i8 q.  x = q·d
void decode_q8_0(const uint8_t* b, int64_t count, float* __restrict out) {
  for (int64_t n = 0; n < count; ++n, b += 34, out += 32) {
    const float d = half_at(b);
    const uint8_t* q = b + 2;
    for (int part = 0; part < 32; part += 16)
      scaled_16(d, out + part, [&](int i) { return bytes_at(q + part + i) << 24 >> 24; });  // signed
  }
}

// d; nibbles q.  x = d·(q − 8)
void decode_q4_0(const uint8_t* b, int64_t count, float* __restrict out) {
  for (int64_t n = 0; n < count; ++n, b += 18, out += 32) {
    const float d = half_at(b);
    const uint8_t* q = b + 2;
    scaled_16(d, out, [&](int i) { return (bytes_at(q + i) & 15) - 8; });
    scaled_16(d, out + 16, [&](int i) { return (bytes_at(q + i) >> 4) - 8; });
  }
}

// d, m; nibbles q.  x = d·q + m
void decode_q4_1(const uint8_t* b, int64_t count, float* __restrict out) {
  for (int64_t n = 0; n < count; ++n, b += 20, out += 32) {
    const float d = half_at(b), m = half_at(b + 2);
    const uint8_t* q = b + 4;
    scaled_16_plus(d, m, out, [&](int i) { return bytes_at(q + i) & 15; });
    scaled_16_plus(d, m, out + 16, [&](int i) { return bytes_at(q + i) >> 4; });
  }
}

// d; 32 fifth bits; nibbles.  x = d·(q − 16)
void decode_q5_0(const uint8_t* b, int64_t count, float* __restrict out) {
  for (int64_t n = 0; n < count; ++n, b += 22, out += 32) {
    const float d = half_at(b);
    const uint32_t fifth = number_at<uint32_t>(b + 2);
    const uint8_t* q = b + 6;
    scaled_16(d, out, [&](int i) { return ((bytes_at(q + i) & 15) | bits_from(fifth, i) << 4) - 16; });
    scaled_16(d, out + 16, [&](int i) { return (bytes_at(q + i) >> 4 | bits_from(fifth, 16 + i) << 4) - 16; });
  }
}

// d, m; 32 fifth bits; nibbles.  x = d·q + m
void decode_q5_1(const uint8_t* b, int64_t count, float* __restrict out) {
  for (int64_t n = 0; n < count; ++n, b += 24, out += 32) {
    const float d = half_at(b), m = half_at(b + 2);
    const uint32_t fifth = number_at<uint32_t>(b + 4);
    const uint8_t* q = b + 8;
    scaled_16_plus(d, m, out, [&](int i) { return (bytes_at(q + i) & 15) | bits_from(fifth, i) << 4; });
    scaled_16_plus(d, m, out + 16, [&](int i) { return bytes_at(q + i) >> 4 | bits_from(fifth, 16 + i) << 4; });
  }
}

// d; nibbles q.  x = d·table[q]
void decode_iq4_nl(const uint8_t* b, int64_t count, float* __restrict out) {
  for (int64_t n = 0; n < count; ++n, b += 18, out += 32) { look_up_nibbles(kTable, b + 2, half_at(b), out); }
}

// Exponent e in one byte; nibbles q: a sign and FP4 (E2M1), whose numbers the table has doubled.  x = 2^(e − 128)·table[q]. A negative zero
// decodes to zero. Source: OCP Microscaling Formats 1.0, MXFP4 (recalled); gguf 0.19 for the bits.
void decode_mxfp4(const uint8_t* b, int64_t count, float* __restrict out) {
  for (int64_t n = 0; n < count; ++n, b += 17, out += 32) look_up_nibbles(kFp4Table, b + 1, half_power_at(b), out);
}

// 256 numbers: d, 16 bits of upper scale pairs, 4 bytes of lower scale nibbles, then eight times 16 bytes of nibbles.
// x = (d·(scale − 32))·table[q]
void decode_iq4_xs(const uint8_t* b, int64_t count, float* __restrict out) {
  for (int64_t n = 0; n < count; ++n, b += 136) {
    const float d = half_at(b);
    const uint32_t upper = number_at<uint16_t>(b + 2);
    for (int sub = 0; sub < 8; ++sub, out += 32) {
      const int lower = b[4 + sub / 2] >> (sub % 2 * 4) & 15, scale = lower | static_cast<int>(upper >> 2 * sub & 3)
                                                                                  << 4;
      const float by = d * static_cast<float>(scale - 32);
      look_up_nibbles(kTable, b + 8 + sub * 16, by, out);
    }
  }
}

}  // namespace tern::TERN_ISA_NAMESPACE
