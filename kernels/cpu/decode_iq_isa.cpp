// GGUF's IQ2 and IQ3 types: 256 numbers as points of a table, with signs beside them. An IQ2 point is eight numbers, an
// IQ3 point four. Source: gguf 0.19, quants.py (facts of the layouts; the judge of the bits).

#include "kernels/cpu/decode_impl.h"
#include "kernels/cpu/iq_grids_impl.h"

namespace tern::TERN_ISA_NAMESPACE {
namespace {

/// The points of a table with their levels in place.
template <int kCount, int kWidth>
struct Grid {
  uint8_t at[kCount][kWidth];
};
template <int kWidth, int kCount, int kLevels>
constexpr Grid<kCount, kWidth> grid_of(const uint16_t (&points)[kCount], const uint8_t (&levels)[kLevels]) {
  constexpr int kBits = kWidth == 8 ? 2 : 3;
  Grid<kCount, kWidth> grid{};
  for (int p = 0; p < kCount; ++p)
    for (int i = 0; i < kWidth; ++i) grid.at[p][i] = levels[points[p] >> kBits * i & ((1 << kBits) - 1)];
  return grid;
}
constexpr uint8_t kLevels2[3] = {8, 25, 43}, kLevels3[8] = {4, 12, 20, 28, 36, 44, 52, 62},
                  kLevels3S[8] = {1, 3, 5, 7, 9, 11, 13, 15};
constexpr auto kGrid2Xxs = grid_of<8>(kIq2XxsPoints, kLevels2);
constexpr auto kGrid2Xs = grid_of<8>(kIq2XsPoints, kLevels2);
constexpr auto kGrid2S = grid_of<8>(kIq2SPoints, kLevels2);
constexpr auto kGrid3Xxs = grid_of<4>(kIq3XxsPoints, kLevels3);
constexpr auto kGrid3S = grid_of<4>(kIq3SPoints, kLevels3S);

/// Seven signs stand for eight: the last makes their number even.
inline uint32_t eight_signs(uint32_t seven) { return seven | static_cast<uint32_t>(__builtin_parity(seven)) << 7; }

/// y = ±scale·point, eight numbers; number i negative where bit i of `signs` is set.
inline void signed_point(uint64_t point, float scale, uint32_t signs, float* __restrict y) {
  typedef float Floats __attribute__((vector_size(32)));
  typedef uint32_t Bits __attribute__((vector_size(32)));
  typedef uint8_t Bytes __attribute__((vector_size(8)));
  Bytes levels;
  __builtin_memcpy(&levels, &point, 8);
  const Floats by = {scale, scale, scale, scale, scale, scale, scale, scale};
  const Bits s = {signs, signs, signs, signs, signs, signs, signs, signs}, place = {31, 30, 29, 28, 27, 26, 25, 24};
  const Bits x = (Bits)(by * __builtin_convertvector(levels, Floats)) ^ (s << place & 0x80000000u);
  __builtin_memcpy(y, &x, sizeof x);
}
inline void signed_point(const uint8_t (&point)[8], float scale, uint32_t signs, float* __restrict y) {
  signed_point(number_at<uint64_t>(point), scale, signs, y);
}
inline void signed_pair(const uint8_t (&first)[4], const uint8_t (&second)[4], float scale, uint32_t signs,
                        float* __restrict y) {
  signed_point(number_at<uint32_t>(first) | static_cast<uint64_t>(number_at<uint32_t>(second)) << 32, scale, signs, y);
}

}  // namespace

// f16 d; eight times: four bytes of points, 32 bits: four times seven signs, a scale of four bits.
// x = ±((d·(½ + scale))·¼)·point
void decode_iq2_xxs(const uint8_t* b, int64_t count, float* __restrict out) {
  for (int64_t n = 0; n < count; ++n, b += 66) {
    const float d = half_at(b);
    for (int sub = 0; sub < 8; ++sub) {
      const uint8_t* points = b + 2 + sub * 8;
      const uint32_t word = number_at<uint32_t>(points + 4);
      const float scale = d * (0.5f + static_cast<float>(word >> 28)) * 0.25f;
      for (int i = 0; i < 4; ++i, out += 8)
        signed_point(kGrid2Xxs.at[points[i]], scale, eight_signs(word >> 7 * i & 127), out);
    }
  }
}

// f16 d; 32 × 16 bits: nine of a point, seven signs; 16 scales of four bits, one for two points.
void decode_iq2_xs(const uint8_t* b, int64_t count, float* __restrict out) {
  for (int64_t n = 0; n < count; ++n, b += 74) {
    const float d = half_at(b);
    for (int i = 0; i < 32; ++i, out += 8) {
      const uint32_t q = number_at<uint16_t>(b + 2 + 2 * i);
      const float scale = d * (0.5f + static_cast<float>(b[66 + i / 4] >> (i / 2 % 2 * 4) & 15)) * 0.25f;
      signed_point(kGrid2Xs.at[q & 511], scale, eight_signs(q >> 9), out);
    }
  }
}

// f16 d; 32 bytes of points, 32 of signs, 8 of the points' upper two bits; 16 scales of four bits.
void decode_iq2_s(const uint8_t* b, int64_t count, float* __restrict out) {
  for (int64_t n = 0; n < count; ++n, b += 82) {
    const float d = half_at(b);
    for (int i = 0; i < 32; ++i, out += 8) {
      const int point = b[2 + i] | (b[66 + i / 4] >> (i % 4 * 2) & 3) << 8;
      const float scale = d * (0.5f + static_cast<float>(b[74 + i / 4] >> (i / 2 % 2 * 4) & 15)) * 0.25f;
      signed_point(kGrid2S.at[point], scale, b[34 + i], out);
    }
  }
}

// f16 d; 64 bytes of points; eight times 32 bits: four times seven signs, a scale of four bits.
// x = ±((d·(½ + scale))·½)·point
void decode_iq3_xxs(const uint8_t* b, int64_t count, float* __restrict out) {
  for (int64_t n = 0; n < count; ++n, b += 98) {
    const float d = half_at(b);
    for (int sub = 0; sub < 8; ++sub) {
      const uint8_t* points = b + 2 + sub * 8;
      const uint32_t word = number_at<uint32_t>(b + 66 + sub * 4);
      const float scale = d * (0.5f + static_cast<float>(word >> 28)) * 0.5f;
      for (int i = 0; i < 4; ++i, out += 8)
        signed_pair(kGrid3Xxs.at[points[2 * i]], kGrid3Xxs.at[points[2 * i + 1]], scale,
                    eight_signs(word >> 7 * i & 127), out);
    }
  }
}

// f16 d; 64 bytes of points, 8 of their ninth bits, 32 of signs; eight scales of four bits.
// x = ±(d·(1 + 2·scale))·point
void decode_iq3_s(const uint8_t* b, int64_t count, float* __restrict out) {
  for (int64_t n = 0; n < count; ++n, b += 110) {
    const float d = half_at(b);
    for (int i = 0; i < 32; ++i, out += 8) {
      const float scale = d * static_cast<float>(1 + 2 * (b[106 + i / 8] >> (i / 4 % 2 * 4) & 15));
      const int ninth = b[66 + i / 4] >> (i % 4 * 2), first = b[2 + 2 * i], second = b[3 + 2 * i];
      signed_pair(kGrid3S.at[first | (ninth & 1) << 8], kGrid3S.at[second | (ninth >> 1 & 1) << 8], scale, b[74 + i],
                  out);
    }
  }
}

}  // namespace tern::TERN_ISA_NAMESPACE
