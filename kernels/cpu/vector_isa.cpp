#include "kernels/cpu/vector_table.h"

#include "kernels/cpu/elementwise_impl.h"

namespace tern::TERN_ISA_NAMESPACE {
namespace {

template <class T>
void add(int64_t count, const T* x, T* y) {
  for_each_lanes(count, [&](int64_t i, int64_t n) { store_some(y + i, load_some(y + i, n) + load_some(x + i, n), n); });
}

template <class T>
void add_bias(int64_t rows, int64_t width, const T* bias, T* y) {
  for (int64_t row = 0; row < rows; ++row) add(width, bias, y + row * width);
}

template <class T>
void add_scaled(int64_t rows, int64_t width, float factor, const T* x, T* y, int64_t stride) {
  const Vec scale = splat(factor);
  for (int64_t row = 0; row < rows; ++row, x += width, y += stride)
    for_each_lanes(width, [&](int64_t i, int64_t n) {
      const Vec more = load_some(x + i, n) * scale;
      store_some(y + i, load_some(y + i, n) + more, n);
    });
}

template <class T>
void add_to_floats(int64_t count, const T* x, float* y) {
  for_each_lanes(count, [&](int64_t i, int64_t n) { store_some(y + i, load_some(y + i, n) + load_some(x + i, n), n); });
}

// Strips of columns whose sums stay in the first cache while all rows pass by.
template <class T>
void bias_backward(int64_t rows, int64_t width, int64_t begin, int64_t end, const T* dy, float* db) {
  constexpr int64_t kStrip = 1024;
  for (int64_t from = begin; from < end; from += kStrip)
    for (int64_t row = 0; row < rows; ++row)
      add_to_floats(end - from < kStrip ? end - from : kStrip, dy + row * width + from, db + from);
}

template <class T>
void gather_rows_add(int64_t rows, int64_t width, const T* table, const int32_t* ids, T* y) {
  for (int64_t row = 0; row < rows; ++row) add(width, table + ids[row] * width, y + row * width);
}

template <class T>
void scatter_rows_add(int64_t rows, int64_t width, int64_t begin, int64_t end, const T* dy, const int32_t* ids,
                      float* dtable) {
  for (int64_t row = 0; row < rows; ++row)
    add_to_floats(end - begin, dy + row * width + begin, dtable + ids[row] * width + begin);
}

template <class From, class To>
void convert(int64_t count, const From* x, To* y) {
  for_each_lanes(count, [&](int64_t i, int64_t n) { store_some(y + i, load_some(x + i, n), n); });
}

#if defined(__AVX512F__)
// Quiets a NaN and keeps the upper bits of its payload, as to_f16 does.
void f32_to_f16(int64_t count, const float* x, f16* y) {
  for_each_lanes(count, [&](int64_t i, int64_t n) {
    const __m256i half =
        _mm512_maskz_cvtps_ph(0xffff, load_some(x + i, n), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm256_mask_storeu_epi16(y + i, first_lanes(n), half);
  });
}
void f16_to_f32(int64_t count, const f16* x, float* y) {
  for_each_lanes(count, [&](int64_t i, int64_t n) {
    store_some(y + i, (Vec)_mm512_maskz_cvtph_ps(0xffff, _mm256_maskz_loadu_epi16(first_lanes(n), x + i)), n);
  });
}
#else
void f32_to_f16(int64_t count, const float* x, f16* y) {
  for (int64_t i = 0; i < count; ++i) y[i] = to_f16(x[i]);  // base/dtype.cpp, not inline
}
void f16_to_f32(int64_t count, const f16* x, float* y) {
  for (int64_t i = 0; i < count; ++i) y[i] = to_float(x[i]);
}
#endif

void f64_to_f32(int64_t count, const double* x, float* y) {
  for (int64_t i = 0; i < count; ++i) y[i] = static_cast<float>(x[i]);
}
void f32_to_f64(int64_t count, const float* x, double* y) {
  for (int64_t i = 0; i < count; ++i) y[i] = static_cast<double>(x[i]);
}

// Eight chains in doubles, whatever the set: the square of an f32 is exact in a double.
double sum_of_squares(int64_t count, const float* x) {
  constexpr int kChains = 8;
  double part[kChains] = {};
  int64_t i = 0;
  for (; i + kChains <= count; i += kChains)
    for (int c = 0; c < kChains; ++c) part[c] += static_cast<double>(x[i + c]) * static_cast<double>(x[i + c]);
  for (int c = 0; i < count; ++i, ++c) part[c] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return ((part[0] + part[4]) + (part[2] + part[6])) + ((part[1] + part[5]) + (part[3] + part[7]));
}

bool all_finite(int64_t count, const float* x) {
  VecInt seen = {};  // all ones in a lane that saw an exponent of all ones
  for_each_lanes(count,
                 [&](int64_t i, int64_t n) { seen |= ((VecInt)load_some(x + i, n) & 0x7f800000) == 0x7f800000; });
  int32_t any = 0;
  for (int lane = 0; lane < kLanes; ++lane) any |= seen[lane];
  return any == 0;
}

template <class T>
constexpr VectorKernels<T> kKernels = {add<T>,           add_bias<T>,        add_scaled<T>,
                                       bias_backward<T>, gather_rows_add<T>, scatter_rows_add<T>};

}  // namespace

const VectorTable vector_table = {.f32 = kKernels<float>,
                                  .bfloat16 = kKernels<bf16>,
                                  .bf16_to_f32 = convert<bf16, float>,
                                  .f32_to_bf16 = convert<float, bf16>,
                                  .f16_to_f32 = f16_to_f32,
                                  .f32_to_f16 = f32_to_f16,
                                  .f64_to_f32 = f64_to_f32,
                                  .f32_to_f64 = f32_to_f64,
                                  .sum_of_squares = sum_of_squares,
                                  .all_finite = all_finite};

}  // namespace tern::TERN_ISA_NAMESPACE
