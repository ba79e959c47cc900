#pragma once
// Products of tiles that lie in the cache, for *_isa.cpp files, and the transposing loads that feed them.

#include "kernels/cpu/elementwise_impl.h"

namespace tern::TERN_ISA_NAMESPACE {
namespace {

/// Element (row, k) of a left factor is data[row·row_stride + k·step]: row-major, or transposed.
struct LeftFactor {
  const float* data;
  int64_t row_stride, step;
};
/// A row-major matrix.
struct Rows {
  float* data;
  int64_t stride;
};

/// kTileHeights[v]: rows of a tile that is v vectors wide. There are enough sums to hide the latency of a fused multiply-add, and few enough to
/// fit the registers beside the vectors of columns and one factor.
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int kTileHeights[] = {0, 12, 12, 8, 6};  // at the most 24 sums, 4 columns, 1 factor: 29 of 32 registers
#else
constexpr int kTileHeights[] = {0, 8, 6, 3, 2};  // at the most 12 sums, 2 columns, 1 factor: 15 of 16 registers
#endif

// The pragmas force the unrolling: without it the sums pass through the stack once per tile.
template <int num_rows, int num_vectors>
inline void gemm_tile(int64_t depth, LeftFactor a, const float* b, int64_t b_stride, float* c, int64_t c_stride,
                      bool add) {
  Vec sum[num_rows][num_vectors];
#pragma GCC unroll 16
  for (int r = 0; r < num_rows; ++r)
#pragma GCC unroll 16
    for (int j = 0; j < num_vectors; ++j) sum[r][j] = add ? load(c + r * c_stride + j * kLanes) : splat(0.0f);
  for (int64_t k = 0; k < depth; ++k) {
    Vec right[num_vectors];
#pragma GCC unroll 16
    for (int j = 0; j < num_vectors; ++j) right[j] = load(b + k * b_stride + j * kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < num_rows; ++r) {
      const Vec left = splat(a.data[r * a.row_stride + k * a.step]);
#pragma GCC unroll 16
      for (int j = 0; j < num_vectors; ++j) sum[r][j] = fma(left, right[j], sum[r][j]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < num_rows; ++r)
#pragma GCC unroll 16
    for (int j = 0; j < num_vectors; ++j) store(c + r * c_stride + j * kLanes, sum[r][j]);
}

/// Computes `num_vectors` vectors of columns: tiles of `num_rows` rows, then tiles of half as many for the rest.
template <int num_vectors, int num_rows = kTileHeights[num_vectors]>
inline void gemm_columns(int64_t rows, int64_t depth, LeftFactor a, const float* b, int64_t b_stride, float* c,
                         int64_t c_stride, bool add) {
  for (; rows >= num_rows; rows -= num_rows, a.data += num_rows * a.row_stride, c += num_rows * c_stride)
    gemm_tile<num_rows, num_vectors>(depth, a, b, b_stride, c, c_stride, add);
  if constexpr (num_rows > 1)
    if (rows > 0) gemm_columns<num_vectors, num_rows / 2>(rows, depth, a, b, b_stride, c, c_stride, add);
}

/// c (rows, cols) = a·b, or += where `add`; b (depth, cols). cols is a multiple of kLanes.
/// Order  each element is one chain of fma over depth, ascending, whatever its neighbours are.
inline void small_gemm(int64_t rows, int64_t cols, int64_t depth, LeftFactor a, Rows b, Rows c, bool add) {
  int64_t j = 0;
  for (; j + 4 * kLanes <= cols; j += 4 * kLanes)
    gemm_columns<4>(rows, depth, a, b.data + j, b.stride, c.data + j, c.stride, add);
  const int64_t left = (cols - j) / kLanes;
  if (left == 3) gemm_columns<3>(rows, depth, a, b.data + j, b.stride, c.data + j, c.stride, add);
  if (left == 2) gemm_columns<2>(rows, depth, a, b.data + j, b.stride, c.data + j, c.stride, add);
  if (left == 1) gemm_columns<1>(rows, depth, a, b.data + j, b.stride, c.data + j, c.stride, add);
}

/// Lane i of vector j becomes lane j of vector i.
inline void transpose(Vec (&v)[kLanes]) {
#if defined(__AVX512F__)
  constexpr __mmask16 kAll = 0xffff;  // the unmasked forms warn of an uninitialized value in GCC 12
  Vec t[16], u[16];
  for (int i = 0; i < 16; i += 2) {
    t[i] = (Vec)_mm512_maskz_unpacklo_ps(kAll, v[i], v[i + 1]);
    t[i + 1] = (Vec)_mm512_maskz_unpackhi_ps(kAll, v[i], v[i + 1]);
  }
  for (int i = 0; i < 16; i += 4)
    for (int c = 0; c < 2; ++c) {
      u[i + 2 * c] = (Vec)_mm512_maskz_unpacklo_pd(0xff, (__m512d)t[i + c], (__m512d)t[i + 2 + c]);
      u[i + 2 * c + 1] = (Vec)_mm512_maskz_unpackhi_pd(0xff, (__m512d)t[i + c], (__m512d)t[i + 2 + c]);
    }
  // Now 128-bit part p of u[4g + c] holds rows 4g … 4g+3 of column 4p + c.
  for (int c = 0; c < 4; ++c) {
    const __m512 a_even = _mm512_maskz_shuffle_f32x4(kAll, u[c], u[4 + c], 0x88),
                 a_odd = _mm512_maskz_shuffle_f32x4(kAll, u[c], u[4 + c], 0xdd);
    const __m512 b_even = _mm512_maskz_shuffle_f32x4(kAll, u[8 + c], u[12 + c], 0x88),
                 b_odd = _mm512_maskz_shuffle_f32x4(kAll, u[8 + c], u[12 + c], 0xdd);
    v[c] = (Vec)_mm512_maskz_shuffle_f32x4(kAll, a_even, b_even, 0x88);
    v[4 + c] = (Vec)_mm512_maskz_shuffle_f32x4(kAll, a_odd, b_odd, 0x88);
    v[8 + c] = (Vec)_mm512_maskz_shuffle_f32x4(kAll, a_even, b_even, 0xdd);
    v[12 + c] = (Vec)_mm512_maskz_shuffle_f32x4(kAll, a_odd, b_odd, 0xdd);
  }
#elif defined(__AVX2__)
  Vec t[8], u[8];
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(v[i], v[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(v[i], v[i + 1]);
  }
  for (int i = 0; i < 8; i += 4)
    for (int c = 0; c < 2; ++c) {
      u[i + 2 * c] = (Vec)_mm256_unpacklo_pd((__m256d)t[i + c], (__m256d)t[i + 2 + c]);
      u[i + 2 * c + 1] = (Vec)_mm256_unpackhi_pd((__m256d)t[i + c], (__m256d)t[i + 2 + c]);
    }
  // Now 128-bit part p of u[4g + c] holds rows 4g … 4g+3 of column 4p + c.
  for (int c = 0; c < 4; ++c) {
    v[c] = _mm256_permute2f128_ps(u[c], u[4 + c], 0x20);
    v[4 + c] = _mm256_permute2f128_ps(u[c], u[4 + c], 0x31);
  }
#else
  const Vec low01 = __builtin_shufflevector(v[0], v[1], 0, 4, 1, 5),
            high01 = __builtin_shufflevector(v[0], v[1], 2, 6, 3, 7);
  const Vec low23 = __builtin_shufflevector(v[2], v[3], 0, 4, 1, 5),
            high23 = __builtin_shufflevector(v[2], v[3], 2, 6, 3, 7);
  v[0] = __builtin_shufflevector(low01, low23, 0, 1, 4, 5);
  v[1] = __builtin_shufflevector(low01, low23, 2, 3, 6, 7);
  v[2] = __builtin_shufflevector(high01, high23, 0, 1, 4, 5);
  v[3] = __builtin_shufflevector(high01, high23, 2, 3, 6, 7);
#endif
}

/// out (dim, out.stride) = the transpose of `count` rows of `dim` elements. Zeros for a null row, and for columns from `count` up to the
/// next multiple of kLanes.
template <class T>
inline void load_transposed(const T* const* rows, int64_t count, int64_t dim, Rows out) {
  for (int64_t j = 0; j < count; j += kLanes)
    for (int64_t d = 0; d < dim; d += kLanes) {
      const int64_t n = dim - d < kLanes ? dim - d : kLanes;
      Vec v[kLanes];
      for (int i = 0; i < kLanes; ++i)
        v[i] = j + i < count && rows[j + i] ? load_some(rows[j + i] + d, n) : splat(0.0f);
      transpose(v);
      for (int64_t i = 0; i < n; ++i) store(out.data + (d + i) * out.stride + j, v[i]);
    }
}

/// out (count, out.stride) = the rows, widened to f32. Zeros behind `dim`, and for a null row.
template <class T>
inline void load_rows(const T* const* rows, int64_t count, int64_t dim, Rows out) {
  for (int64_t r = 0; r < count; ++r)
    for (int64_t d = 0; d < out.stride; d += kLanes) {
      const int64_t n = dim - d < 0 ? 0 : dim - d < kLanes ? dim - d : kLanes;
      store(out.data + r * out.stride + d, rows[r] ? load_some(rows[r] + d, n) : splat(0.0f));
    }
}

}  // namespace
}  // namespace tern::TERN_ISA_NAMESPACE
