// tern's own types of 64 numbers. U4, U3, U2: f32 scale and offset, then codes; x = scale·q + offset, rounded twice, so
// that an offset may be moved without touching a code. NF4: f32 scale, then nibbles into a table. NF4_1: scale and offset.

#include "kernels/cpu/decode_impl.h"

namespace tern::TERN_ISA_NAMESPACE {
namespace {

/// Quantiles of the normal distribution. Source: QLoRA, Dettmers et al. 2023, arXiv:2305.14314; the numbers are those of
/// bitsandbytes.
constexpr float kNf4[16] = {-1.0f,
                            -0.6961928009986877f,
                            -0.5250730514526367f,
                            -0.39491748809814453f,
                            -0.28444138169288635f,
                            -0.18477343022823334f,
                            -0.09105003625154495f,
                            0.0f,
                            0.07958029955625534f,
                            0.16093020141124725f,
                            0.24611230194568634f,
                            0.33791524171829224f,
                            0.44070982933044434f,
                            0.5626170039176941f,
                            0.7229568362236023f,
                            1.0f};

// 64 numbers scale·table[q], the high nibble of a byte first.
inline void look_up_64(const uint8_t* q, float scale, float* __restrict out) {
  for (int half = 0; half < 64; half += 32) {
    float low_then_high[32];
    look_up_nibbles(kNf4, q + half / 2, scale, low_then_high);
    for (int i = 0; i < 16; ++i) out[half + 2 * i] = low_then_high[16 + i], out[half + 2 * i + 1] = low_then_high[i];
  }
}

}  // namespace

// 32 bytes: low nibbles are numbers 0 to 31, high ones 32 to 63.
void decode_u4(const uint8_t* b, int64_t count, float* __restrict out) {
  for (int64_t n = 0; n < count; ++n, b += 40, out += 64) {
    const float scale = number_at<float>(b), offset = number_at<float>(b + 4);
    const uint8_t* q = b + 8;
    for (int part = 0; part < 32; part += 16) {
      scaled_16_plus(scale, offset, out + part, [&](int i) { return bytes_at(q + part + i) & 15; });
      scaled_16_plus(scale, offset, out + 32 + part, [&](int i) { return bytes_at(q + part + i) >> 4; });
    }
  }
}

// 16 bytes: pair j of byte i is the lower part of number 16j + i; 8 bytes: bit j of byte i is the upper of 8j + i.
void decode_u3(const uint8_t* b, int64_t count, float* __restrict out) {
  for (int64_t n = 0; n < count; ++n, b += 32, out += 64) {
    const float scale = number_at<float>(b), offset = number_at<float>(b + 4);
    for (int j = 0; j < 8; ++j) {
      const uint8_t *low = b + 8 + j % 2 * 8, *high = b + 24;
      for (int i = 0; i < 8; ++i)
        out[8 * j + i] = scale * static_cast<float>((low[i] >> j / 2 * 2 & 3) | (high[i] >> j & 1) << 2) + offset;
    }
  }
}

// 16 bytes: pair j of byte i is number 16j + i.
void decode_u2(const uint8_t* b, int64_t count, float* __restrict out) {
  for (int64_t n = 0; n < count; ++n, b += 24, out += 64) {
    const float scale = number_at<float>(b), offset = number_at<float>(b + 4);
    for (int j = 0; j < 4; ++j)
      scaled_16_plus(scale, offset, out + 16 * j, [&](int i) { return bytes_at(b + 8 + i) >> 2 * j & 3; });
  }
}

// The largest magnitude; 32 bytes: the high nibble of byte i is number 2i, the low one 2i + 1.  x = scale·table[q]
void decode_nf4(const uint8_t* b, int64_t count, float* __restrict out) {
  for (int64_t n = 0; n < count; ++n, b += 36, out += 64) look_up_64(b + 4, number_at<float>(b), out);
}

// The same behind the offset that was taken from the numbers before.  x = scale·table[q] + offset
void decode_nf4_1(const uint8_t* b, int64_t count, float* __restrict out) {
  for (int64_t n = 0; n < count; ++n, b += 40, out += 64) {
    const float offset = number_at<float>(b + 4);
    look_up_64(b + 8, number_at<float>(b), out);
    for (int i = 0; i < 64; ++i) out[i] += offset;
  }
}

}  // namespace tern::TERN_ISA_NAMESPACE
