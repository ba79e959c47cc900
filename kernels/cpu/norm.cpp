#include "kernels/cpu/norm.h"

#include <type_traits>

#include "base/error.h"
#include "kernels/cpu/norm_table.h"
#include "kernels/cpu/parallel.h"
#include "kernels/dispatch.h"

namespace tern {
namespace {

template <class T>
const NormKernels<T>& active() {
  const NormTable& table = TERN_TABLE_OF(norm_table, active_isa());
  if constexpr (std::is_same_v<T, float>)
    return table.f32;
  else
    return table.bfloat16;
}

struct Rows {
  int64_t rows, width;
};
Rows rows_of(const char* kernel, size_t elements, size_t width, bool fits) {
  TERN_CHECK(width > 0 && elements % width == 0 && fits,
             "{}: {} elements in rows of {}, or another span of unlike length", kernel, elements, width);
  return {static_cast<int64_t>(elements / width), static_cast<int64_t>(width)};
}
bool kept_or_empty(std::span<const float> s, size_t rows) { return s.empty() || s.size() == rows; }
float* at(std::span<float> s, int64_t row) { return s.empty() ? nullptr : s.data() + row; }

constexpr int64_t kColumnUnit = 64;  // whole cache lines of gradients to each thread

}  // namespace

template <class T>
void rms_norm(std::span<const T> x, std::span<const T> w, float eps, std::span<T> y, std::span<float> rstd,
              float offset) {
  const auto [rows, width] =
      rows_of("rms_norm", x.size(), w.size(), y.size() == x.size() && kept_or_empty(rstd, x.size() / w.size()));
  const auto kernel = active<T>().rms;
  parallel_ranges(rows, row_grain(width), 1, [&, n = width](int64_t begin, int64_t end) {
    kernel(x.data() + begin * n, w.data(), offset, eps, end - begin, n, y.data() + begin * n, at(rstd, begin));
  });
}

template <class T>
void rms_norm_backward_input(std::span<const T> dy, std::span<const T> x, std::span<const T> w,
                             std::span<const float> rstd, std::span<T> dx, bool add, float offset) {
  const auto [rows, width] =
      rows_of("rms_norm_backward_input", x.size(), w.size(),
              dy.size() == x.size() && dx.size() == x.size() && rstd.size() * w.size() == x.size());
  const auto kernel = active<T>().rms_input;
  parallel_ranges(rows, row_grain(width), 1, [&, n = width](int64_t begin, int64_t end) {
    const int64_t from = begin * n;
    kernel(dy.data() + from, x.data() + from, w.data(), offset, rstd.data() + begin, end - begin, n, dx.data() + from,
           add);
  });
}

template <class T>
void rms_norm_backward_weight(std::span<const T> dy, std::span<const T> x, std::span<const float> rstd,
                              std::span<float> dw) {
  const auto [rows, width] = rows_of("rms_norm_backward_weight", x.size(), dw.size(),
                                     dy.size() == x.size() && rstd.size() * dw.size() == x.size());
  const auto kernel = active<T>().rms_weight;
  parallel_ranges(width, row_grain(rows), kColumnUnit, [&, r = rows, n = width](int64_t begin, int64_t end) {
    kernel(dy.data(), x.data(), rstd.data(), r, n, begin, end, dw.data());
  });
}

template <class T>
void layer_norm(std::span<const T> x, std::span<const T> w, std::span<const T> b, float eps, std::span<T> y,
                std::span<float> mean, std::span<float> rstd) {
  const auto [rows, width] =
      rows_of("layer_norm", x.size(), w.size(),
              y.size() == x.size() && (b.empty() || b.size() == w.size()) && kept_or_empty(mean, x.size() / w.size()) &&
                  kept_or_empty(rstd, x.size() / w.size()));
  const auto kernel = active<T>().layer;
  parallel_ranges(rows, row_grain(width), 1, [&, n = width](int64_t begin, int64_t end) {
    kernel(x.data() + begin * n, w.data(), b.empty() ? nullptr : b.data(), eps, end - begin, n, y.data() + begin * n,
           at(mean, begin), at(rstd, begin));
  });
}

template <class T>
void layer_norm_backward_input(std::span<const T> dy, std::span<const T> x, std::span<const T> w,
                               std::span<const float> mean, std::span<const float> rstd, std::span<T> dx, bool add) {
  const auto [rows, width] = rows_of("layer_norm_backward_input", x.size(), w.size(),
                                     dy.size() == x.size() && dx.size() == x.size() && mean.size() == rstd.size() &&
                                         rstd.size() * w.size() == x.size());
  const auto kernel = active<T>().layer_input;
  parallel_ranges(rows, row_grain(width), 1, [&, n = width](int64_t begin, int64_t end) {
    const int64_t from = begin * n;
    kernel(dy.data() + from, x.data() + from, w.data(), mean.data() + begin, rstd.data() + begin, end - begin, n,
           dx.data() + from, add);
  });
}

template <class T>
void layer_norm_backward_weight(std::span<const T> dy, std::span<const T> x, std::span<const float> mean,
                                std::span<const float> rstd, std::span<float> dw, std::span<float> db) {
  const auto [rows, width] = rows_of("layer_norm_backward_weight", x.size(), dw.size(),
                                     dy.size() == x.size() && (db.empty() || db.size() == dw.size()) &&
                                         mean.size() == rstd.size() && rstd.size() * dw.size() == x.size());
  const auto kernel = active<T>().layer_weight;
  parallel_ranges(width, row_grain(rows), kColumnUnit, [&, r = rows, n = width](int64_t begin, int64_t end) {
    kernel(dy.data(), x.data(), mean.data(), rstd.data(), r, n, begin, end, dw.data(),
           db.empty() ? nullptr : db.data());
  });
}

#define TERN_INSTANTIATE(T)                                                                                        \
  template void rms_norm<T>(std::span<const T>, std::span<const T>, float, std::span<T>, std::span<float>, float); \
  template void rms_norm_backward_input<T>(std::span<const T>, std::span<const T>, std::span<const T>,             \
                                           std::span<const float>, std::span<T>, bool, float);                     \
  template void rms_norm_backward_weight<T>(std::span<const T>, std::span<const T>, std::span<const float>,        \
                                            std::span<float>);                                                     \
  template void layer_norm<T>(std::span<const T>, std::span<const T>, std::span<const T>, float, std::span<T>,     \
                              std::span<float>, std::span<float>);                                                 \
  template void layer_norm_backward_input<T>(std::span<const T>, std::span<const T>, std::span<const T>,           \
                                             std::span<const float>, std::span<const float>, std::span<T>, bool);  \
  template void layer_norm_backward_weight<T>(std::span<const T>, std::span<const T>, std::span<const float>,      \
                                              std::span<const float>, std::span<float>, std::span<float>);
TERN_INSTANTIATE(float)
TERN_INSTANTIATE(bf16)

}  // namespace tern
