// Norms on one instruction set. Formulas are derived over kernels/ref/norm_ref.cpp. A row's sums run in four vectors of
// partial sums, folded in one fixed order: they depend on the width alone.

#include "kernels/cpu/elementwise_impl.h"
#include "kernels/cpu/norm_table.h"
#include "kernels/cpu/vector_math_impl.h"

namespace tern::TERN_ISA_NAMESPACE {
namespace {

constexpr int kChains = 4;
struct Chains {
  Vec part[kChains] = {};
};
inline float sum(const Chains& c) { return sum((c.part[0] + c.part[1]) + (c.part[2] + c.part[3])); }

// Calls body(i, n, chain) for each vector of a row: n lanes from element i, into partial sum `chain`.
template <class Body>
inline void for_each_vector(int64_t width, Body body) {
  int64_t i = 0;
  for (; i + kChains * kLanes <= width; i += kChains * kLanes)
    for (int c = 0; c < kChains; ++c) body(i + c * kLanes, static_cast<int64_t>(kLanes), c);
  for (int c = 0; i < width; i += kLanes, ++c) body(i, width - i < kLanes ? width - i : kLanes, c);
}
inline Vec keep_first(Vec v, int64_t n) {  // zero in the lanes behind a tail
  if (n == kLanes) return v;
  float lane[kLanes];
  __builtin_memcpy(lane, &v, sizeof v);
  return load(lane, n);
}

template <class T>
void rms(const T* x, const T* w, float offset, float eps, int64_t rows, int64_t width, T* y, float* rstd) {
  for (int64_t row = 0; row < rows; ++row, x += width, y += width) {
    Chains squares;
    for_each_vector(width, [&](int64_t i, int64_t n, int c) {
      const Vec v = load_some(x + i, n);
      squares.part[c] = fma(v, v, squares.part[c]);
    });
    const float r = 1.0f / __builtin_sqrtf(sum(squares) / static_cast<float>(width) + eps);
    for_each_vector(width, [&](int64_t i, int64_t n, int) {
      store_some(y + i, load_some(x + i, n) * r * (load_some(w + i, n) + offset), n);
    });
    if (rstd) rstd[row] = r;
  }
}

template <class T>
void rms_input(const T* dy, const T* x, const T* w, float offset, const float* rstd, int64_t rows, int64_t width, T* dx,
               bool add) {
  for (int64_t row = 0; row < rows; ++row, dy += width, x += width, dx += width) {
    Chains dot;
    for_each_vector(width, [&](int64_t i, int64_t n, int c) {
      dot.part[c] = fma(load_some(dy + i, n) * (load_some(w + i, n) + offset), load_some(x + i, n), dot.part[c]);
    });
    const float r = rstd[row], pull = r * r * (sum(dot) / static_cast<float>(width));
    for_each_vector(width, [&](int64_t i, int64_t n, int) {
      const Vec g = load_some(dy + i, n) * (load_some(w + i, n) + offset);
      Vec d = fma(load_some(x + i, n), splat(-pull), g) * r;
      if (add) d += load_some(dx + i, n);
      store_some(dx + i, d, n);
    });
  }
}

// Strips of columns whose gradients stay in the first cache while all rows pass by.
constexpr int64_t kStrip = 512;
template <class Body>
inline void for_each_strip(int64_t begin, int64_t end, int64_t rows, Body body) {
  for (int64_t from = begin; from < end; from += kStrip) {
    const int64_t to = end - from < kStrip ? end : from + kStrip;
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t j = from; j < to; j += kLanes) body(row, j, to - j < kLanes ? to - j : kLanes);
  }
}

template <class T>
void rms_weight(const T* dy, const T* x, const float* rstd, int64_t rows, int64_t width, int64_t begin, int64_t end,
                float* dw) {
  for_each_strip(begin, end, rows, [&](int64_t row, int64_t j, int64_t n) {
    const Vec scaled = load_some(x + row * width + j, n) * rstd[row];
    store_some(dw + j, fma(load_some(dy + row * width + j, n), scaled, load_some(dw + j, n)), n);
  });
}

template <class T>
void layer(const T* x, const T* w, const T* b, float eps, int64_t rows, int64_t width, T* y, float* mean, float* rstd) {
  for (int64_t row = 0; row < rows; ++row, x += width, y += width) {
    Chains total, squares;
    for_each_vector(width, [&](int64_t i, int64_t n, int c) { total.part[c] += load_some(x + i, n); });
    const float m = sum(total) / static_cast<float>(width);
    for_each_vector(width, [&](int64_t i, int64_t n, int c) {
      const Vec centred = keep_first(load_some(x + i, n) - m, n);
      squares.part[c] = fma(centred, centred, squares.part[c]);
    });
    const float r = 1.0f / __builtin_sqrtf(sum(squares) / static_cast<float>(width) + eps);
    for_each_vector(width, [&](int64_t i, int64_t n, int) {
      const Vec shift = b ? load_some(b + i, n) : splat(0);
      store_some(y + i, fma((load_some(x + i, n) - m) * r, load_some(w + i, n), shift), n);
    });
    if (mean) mean[row] = m;
    if (rstd) rstd[row] = r;
  }
}

template <class T>
void layer_input(const T* dy, const T* x, const T* w, const float* mean, const float* rstd, int64_t rows, int64_t width,
                 T* dx, bool add) {
  for (int64_t row = 0; row < rows; ++row, dy += width, x += width, dx += width) {
    const float m = mean[row], r = rstd[row];
    Chains sum_g, sum_gx;
    for_each_vector(width, [&](int64_t i, int64_t n, int c) {
      const Vec g = load_some(dy + i, n) * load_some(w + i, n);  // zero behind a tail, so no mask for the centred x
      sum_g.part[c] += g;
      sum_gx.part[c] = fma(g, (load_some(x + i, n) - m) * r, sum_gx.part[c]);
    });
    const float mean_g = sum(sum_g) / static_cast<float>(width), mean_gx = sum(sum_gx) / static_cast<float>(width);
    for_each_vector(width, [&](int64_t i, int64_t n, int) {
      const Vec g = load_some(dy + i, n) * load_some(w + i, n);
      Vec d = fma((load_some(x + i, n) - m) * r, splat(-mean_gx), g - mean_g) * r;
      if (add) d += load_some(dx + i, n);
      store_some(dx + i, d, n);
    });
  }
}

template <class T>
void layer_weight(const T* dy, const T* x, const float* mean, const float* rstd, int64_t rows, int64_t width,
                  int64_t begin, int64_t end, float* dw, float* db) {
  for_each_strip(begin, end, rows, [&](int64_t row, int64_t j, int64_t n) {
    const Vec g = load_some(dy + row * width + j, n);
    const Vec centred = (load_some(x + row * width + j, n) - mean[row]) * rstd[row];
    store_some(dw + j, fma(g, centred, load_some(dw + j, n)), n);
    if (db) store_some(db + j, load_some(db + j, n) + g, n);
  });
}

template <class T>
constexpr NormKernels<T> kKernels = {rms<T>, rms_input<T>, rms_weight<T>, layer<T>, layer_input<T>, layer_weight<T>};

}  // namespace

const NormTable norm_table = {kKernels<float>, kKernels<bf16>};

}  // namespace tern::TERN_ISA_NAMESPACE
