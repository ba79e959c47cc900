#include "kernels/cpu/kv_rows.h"

#include <cmath>
#include <cstring>
#include <type_traits>

namespace tern {
namespace {

template <class To, class From>
To converted(From x) {
  if constexpr (std::is_same_v<To, From>)
    return x;
  else if constexpr (std::is_same_v<From, bf16>)
    return to_float(x);
  else if constexpr (std::is_same_v<To, bf16>)
    return to_bf16(static_cast<float>(x));
  else
    return static_cast<To>(x);
}
template <class Kept, class T>
void write_numbers(const T* x, int64_t numbers, uint8_t* row) {
  for (int64_t i = 0; i < numbers; ++i) {
    const Kept kept = converted<Kept>(x[i]);
    std::memcpy(row + i * static_cast<int64_t>(sizeof kept), &kept, sizeof kept);
  }
}
template <class Kept, class T>
void read_numbers(const uint8_t* row, int64_t numbers, T* x) {
  for (int64_t i = 0; i < numbers; ++i) {
    Kept kept;
    std::memcpy(&kept, row + i * static_cast<int64_t>(sizeof kept), sizeof kept);
    x[i] = converted<T>(kept);
  }
}

// The first number of the largest magnitude; NaN if one is not finite.
template <class T>
float largest(const T* x, int64_t numbers) {
  float most = 0;
  bool finite = true;
  for (int64_t i = 0; i < numbers; ++i) {
    const float v = converted<float>(x[i]);
    finite = finite && std::isfinite(v);
    if (std::abs(v) > std::abs(most)) most = v;
  }
  return finite ? most : NAN;
}

// To the nearest whole number, ties to even, for |x| < 2^22, whatever the compiler makes of it.
float nearest(float x) {
  constexpr float kShift = 0x1.8p23f;
  return (x + kShift) - kShift;
}
// Codes of a type, and how many scales are tried.
struct Codes {
  float least, most;
};
constexpr Codes kQ8{-127, 127}, kQ4{-8, 7};
constexpr int kScales = 4;

float code_of(float x, float scale, Codes codes) {
  if (!(std::abs(scale) > 0)) return 0;  // NaN too
  const float code = nearest(x / scale);
  return code < codes.least ? codes.least : code > codes.most ? codes.most : code;
}
// Of the rounded scale and its next larger neighbours the one that leaves the least Σ (x − s·code)², of equals the first.
template <class T>
float write_scale(float scale, Codes codes, const T* x, int64_t numbers, uint8_t* row) {
  bf16 best = to_bf16(scale), next = best;
  double least = INFINITY;
  for (int i = 0; i < kScales && std::abs(to_float(next)) > 0 && std::isfinite(to_float(next)); ++i, ++next.bits) {
    const float s = to_float(next);
    double error = 0;
    for (int64_t j = 0; j < numbers; ++j) {
      const float v = converted<float>(x[j]);
      const double d = static_cast<double>(v) - static_cast<double>(s * code_of(v, s, codes));
      error += d * d;
    }
    if (error < least) least = error, best = next;
  }
  std::memcpy(row, &best, sizeof best);
  return to_float(best);
}

}  // namespace

template <class T>
void write_kv_row(KvType type, const T* x, int64_t numbers, uint8_t* row) {
  switch (type) {
    case KvType::f64:
      return write_numbers<double>(x, numbers, row);
    case KvType::f32:
      return write_numbers<float>(x, numbers, row);
    case KvType::bf16:
      return write_numbers<bf16>(x, numbers, row);
    case KvType::q8: {
      const float scale = write_scale(std::abs(largest(x, numbers)) / 127, kQ8, x, numbers, row);
      for (int64_t i = 0; i < numbers; ++i)
        row[2 + i] = static_cast<uint8_t>(static_cast<int8_t>(code_of(converted<float>(x[i]), scale, kQ8)));
      return;
    }
    case KvType::q4: {
      const float scale = write_scale(largest(x, numbers) / -8, kQ4, x, numbers, row);
      const int64_t half = (numbers + 1) / 2;
      const auto code = [&](int64_t i) {
        return i < numbers ? static_cast<int>(code_of(converted<float>(x[i]), scale, kQ4)) + 8 : 8;
      };
      for (int64_t i = 0; i < half; ++i) row[2 + i] = static_cast<uint8_t>(code(i) | code(half + i) << 4);
      return;
    }
  }
}

template <class T>
void read_kv_row(KvType type, const uint8_t* row, int64_t numbers, T* x) {
  switch (type) {
    case KvType::f64:
      return read_numbers<double>(row, numbers, x);
    case KvType::f32:
      return read_numbers<float>(row, numbers, x);
    case KvType::bf16:
      return read_numbers<bf16>(row, numbers, x);
    case KvType::q8:
    case KvType::q4: {
      bf16 kept;
      std::memcpy(&kept, row, sizeof kept);
      const float scale = to_float(kept);
      const int64_t half = (numbers + 1) / 2;
      for (int64_t i = 0; i < numbers; ++i) {
        const int code = type == KvType::q8 ? static_cast<int8_t>(row[2 + i])
                         : i < half         ? (row[2 + i] & 15) - 8
                                            : (row[2 + i - half] >> 4) - 8;
        x[i] = converted<T>(scale * static_cast<float>(code));
      }
      return;
    }
  }
}

#define TERN_INSTANTIATE(T)                                           \
  template void write_kv_row<T>(KvType, const T*, int64_t, uint8_t*); \
  template void read_kv_row<T>(KvType, const uint8_t*, int64_t, T*);
TERN_INSTANTIATE(float)
TERN_INSTANTIATE(bf16)
TERN_INSTANTIATE(double)
#undef TERN_INSTANTIATE

}  // namespace tern
