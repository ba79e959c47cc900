// GGUF's k-quants: 256 numbers, sub-blocks of 16 or 32 whose scales (and minima) are integers times an f16.
// Source: gguf 0.19, quants.py (facts of the layouts; the judge of the bits).

#include "kernels/cpu/decode_impl.h"

namespace tern::TERN_ISA_NAMESPACE {
namespace {

/// Scales and minima of Q4_K and Q5_K, six bits each, in twelve bytes: four of low scales, four of low minima (the upper
/// two bits of both belong to the high ones), four of nibbles: low scale, high minimum of sub-blocks 4 to 7.
struct ScaleMin {
  float scale[8], min[8];
};
inline ScaleMin scale_min(const uint8_t* b, float d, float dmin) {
  ScaleMin s;
  for (int i = 0; i < 4; ++i) {
    const int lo = b[i], mid = b[4 + i], hi = b[8 + i];
    s.scale[i] = d * static_cast<float>(lo & 63);
    s.min[i] = dmin * static_cast<float>(mid & 63);
    s.scale[i + 4] = d * static_cast<float>((hi & 15) | (lo >> 2 & 48));
    s.min[i + 4] = dmin * static_cast<float>((hi >> 4) | (mid >> 2 & 48));
  }
  return s;
}

}  // namespace

// 16 bytes: low nibble a scale, high one a minimum of 16 numbers; 64 bytes: of each 32, pair j holds numbers 32j to
// 32j + 31 of a half; f16 d, dmin.  x = (d·scale)·q − dmin·min
void decode_q2_k(const uint8_t* b, int64_t count, float* __restrict out) {
  for (int64_t n = 0; n < count; ++n, b += 84) {
    const float d = half_at(b + 80), dmin = half_at(b + 82);
    for (int sub = 0; sub < 16; ++sub, out += 16) {
      const float scale = d * static_cast<float>(b[sub] & 15), min = dmin * static_cast<float>(b[sub] >> 4);
      const uint8_t* q = b + 16 + sub / 8 * 32 + sub % 2 * 16;
      const int shift = sub / 2 % 4 * 2;
      scaled_16_minus(scale, min, out, [&](int i) { return bytes_at(q + i) >> shift & 3; });
    }
  }
}

// 32 bytes: bit k of byte i belongs to number 32k + i; 64 bytes of pairs as in Q2_K; 12 bytes of scales of six bits:
// eight of low nibbles (scales 0 to 7, then 8 to 15), four of pairs (scale s: byte s mod 4); f16 d.
// x = (d·(scale − 32))·(q − 4, or q where the bit is set)
void decode_q3_k(const uint8_t* b, int64_t count, float* __restrict out) {
  for (int64_t n = 0; n < count; ++n, b += 110) {
    const float d = half_at(b + 108);
    const uint8_t* packed = b + 96;
    for (int sub = 0; sub < 16; ++sub, out += 16) {
      const int low = packed[sub % 8] >> sub / 8 * 4 & 15, high = packed[8 + sub % 4] >> sub / 4 * 2 & 3;
      const float scale = d * static_cast<float>((low | high << 4) - 32);
      const uint8_t *q = b + 32 + sub / 8 * 32 + sub % 2 * 16, *bits = b + sub % 2 * 16;
      const int shift = sub / 2 % 4 * 2, bit = sub / 2;
      scaled_16(scale, out,
                [&](int i) { return (bytes_at(q + i) >> shift & 3) - 4 + ((bytes_at(bits + i) >> bit & 1) << 2); });
    }
  }
}

// f16 d, dmin; 12 bytes of scales; 128 bytes: each 32 hold sub-blocks 2j (low nibbles) and 2j + 1.
// x = (d·scale)·q − dmin·min
void decode_q4_k(const uint8_t* b, int64_t count, float* __restrict out) {
  for (int64_t n = 0; n < count; ++n, b += 144) {
    const ScaleMin s = scale_min(b + 4, half_at(b), half_at(b + 2));
    for (int sub = 0; sub < 8; ++sub, out += 32) {
      const float scale = s.scale[sub], min = s.min[sub];
      const uint8_t* q = b + 16 + sub / 2 * 32;
      const int shift = sub % 2 * 4;
      for (int part = 0; part < 32; part += 16)
        scaled_16_minus(scale, min, out + part, [&](int i) { return bytes_at(q + part + i) >> shift & 15; });
    }
  }
}

// The same, with 32 bytes of fifth bits before the nibbles: bit s of byte i for sub-block s.
void decode_q5_k(const uint8_t* b, int64_t count, float* __restrict out) {
  for (int64_t n = 0; n < count; ++n, b += 176) {
    const ScaleMin s = scale_min(b + 4, half_at(b), half_at(b + 2));
    for (int sub = 0; sub < 8; ++sub, out += 32) {
      const float scale = s.scale[sub], min = s.min[sub];
      const uint8_t *q = b + 48 + sub / 2 * 32, *fifth = b + 16;
      const int shift = sub % 2 * 4;
      for (int part = 0; part < 32; part += 16)
        scaled_16_minus(scale, min, out + part, [&](int i) {
          return (bytes_at(q + part + i) >> shift & 15) | (bytes_at(fifth + part + i) >> sub & 1) << 4;
        });
    }
  }
}

// 128 bytes of low nibbles, 64 of upper pairs, 16 × i8 scales, f16 d. Each half of 128 numbers: 64 bytes of nibbles (low
// ones: numbers 0 to 63, high ones: 64 to 127), 32 bytes of pairs (pair j: 32j to 32j + 31).
// x = (d·scale)·(q − 32)
void decode_q6_k(const uint8_t* b, int64_t count, float* __restrict out) {
  for (int64_t n = 0; n < count; ++n, b += 210) {
    const float d = half_at(b + 208);
    for (int sub = 0; sub < 16; ++sub, out += 16) {
      const float scale = d * static_cast<float>(static_cast<int8_t>(b[192 + sub]));
      const int half = sub / 8, row = sub / 2 % 4, lane = sub % 2 * 16;
      const uint8_t *low = b + half * 64 + row % 2 * 32 + lane, *high = b + 128 + half * 32 + lane;
      const int low_shift = row / 2 * 4, high_shift = row * 2;
      scaled_16(scale, out, [&](int i) {
        return ((bytes_at(low + i) >> low_shift & 15) | (bytes_at(high + i) >> high_shift & 3) << 4) - 32;
      });
    }
  }
}

}  // namespace tern::TERN_ISA_NAMESPACE
