#include "kernels/cpu/heads.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/dtype.h"
#include "base/error.h"
#include "kernels/cpu/parallel.h"

namespace tern {

namespace {

void check(const HeadShape& s, int64_t heads, const HeadPieces& p, size_t size) {
  if (s.rows == 0) return;
  const int64_t end = (s.rows - 1) * p.stride + p.at + std::max<int64_t>(heads - 1, 0) * p.step + s.width;
  TERN_CHECK(p.at >= 0 && p.step >= 0 && end <= static_cast<int64_t>(size),
             "heads: {} rows of {} pieces of {} at {} + {}·h + {}·r end at {} of {} elements", s.rows, heads, s.width,
             p.at, p.step, p.stride, end, size);
}

// f(r) for every row, on as many threads as the work repays: one token's row is copied where it is.
template <class F>
void for_rows(const HeadShape& s, F f) {
  parallel_ranges(s.rows, row_grain(s.heads * s.width), 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) f(r);
  });
}

float number(float x) { return x; }
float number(bf16 x) { return to_float(x); }

}  // namespace

template <class T>
void copy_heads(HeadShape s, std::span<const T> from, HeadPieces source, std::span<T> to, HeadPieces place) {
  check(s, s.heads, source, from.size());
  check(s, s.heads, place, to.size());
  for_rows(s, [&](int64_t r) {
    const T* const x = from.data() + r * source.stride + source.at;
    T* const y = to.data() + r * place.stride + place.at;
    for (int64_t h = 0; h < s.heads; ++h)
      std::memcpy(static_cast<void*>(y + h * place.step), x + h * source.step,
                  static_cast<size_t>(s.width) * sizeof(T));
  });
}

template <class T>
void zero_heads(HeadShape s, std::span<T> to, HeadPieces place) {
  check(s, s.heads, place, to.size());
  for_rows(s, [&](int64_t r) {
    T* const y = to.data() + r * place.stride + place.at;
    for (int64_t h = 0; h < s.heads; ++h)
      std::memset(static_cast<void*>(y + h * place.step), 0, static_cast<size_t>(s.width) * sizeof(T));
  });
}

template <class T>
void sum_heads(HeadShape s, std::span<const T> from, HeadPieces source, std::span<T> to, HeadPieces place) {
  check(s, s.heads, source, from.size());
  check(s, 1, place, to.size());
  for_rows(s, [&](int64_t r) {
    const T* const x = from.data() + r * source.stride + source.at;
    T* const y = to.data() + r * place.stride + place.at;
    for (int64_t i = 0; i < s.width; ++i) {
      float sum = 0;
      for (int64_t h = 0; h < s.heads; ++h) sum += number(x[h * source.step + i]);
      if constexpr (std::is_same_v<T, bf16>)
        y[i] = to_bf16(sum);
      else
        y[i] = sum;
    }
  });
}

#define TERN_HEADS(T)                                                                               \
  template void copy_heads<T>(HeadShape, std::span<const T>, HeadPieces, std::span<T>, HeadPieces); \
  template void zero_heads<T>(HeadShape, std::span<T>, HeadPieces);                                 \
  template void sum_heads<T>(HeadShape, std::span<const T>, HeadPieces, std::span<T>, HeadPieces);
TERN_HEADS(float)
TERN_HEADS(bf16)
#undef TERN_HEADS

}  // namespace tern
