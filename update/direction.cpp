#include "update/direction.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <span>
#include <type_traits>

#include "base/error.h"
#include "base/rng.h"
#include "kernels/cpu/parallel.h"

namespace tern {
namespace {

constexpr int64_t kNormalsInBlock = 4;

// Apart from the streams that first weights are drawn from, which are hashes of names alone.
uint64_t stream_of(const Direction& d, std::string_view parameter) {
  constexpr std::string_view kPurpose = "direction of step ";
  uint64_t hash = hash_name(kPurpose);
  std::array<char, 8> step{};
  for (size_t i = 0; i < step.size(); ++i) step[i] = static_cast<char>(static_cast<uint64_t>(d.step) >> (8 * i));
  hash = hash_name({step.data(), step.size()}, hash);
  return hash_name(parameter, hash);
}

// Two normals of two words: the first uniform is in (0, 1], so that its logarithm is finite.
void normal_pair(uint32_t first, uint32_t second, float* z) {
  const float u = (static_cast<float>(first >> 8) + 1.0f) * 0x1p-24f;
  const float v = static_cast<float>(second >> 8) * 0x1p-24f;
  const float length = std::sqrt(-2.0f * std::log(u)), angle = 2.0f * std::numbers::pi_v<float> * v;
  z[0] = length * std::cos(angle);
  z[1] = length * std::sin(angle);
}

std::array<float, kNormalsInBlock> normals(uint64_t seed, uint64_t stream, int64_t block) {
  const auto b = static_cast<uint64_t>(block);
  const Philox4 x = philox({static_cast<uint32_t>(b), static_cast<uint32_t>(b >> 32), static_cast<uint32_t>(stream),
                            static_cast<uint32_t>(stream >> 32)},
                           {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  std::array<float, kNormalsInBlock> z;
  normal_pair(x[0], x[1], z.data());
  normal_pair(x[2], x[3], z.data() + 2);
  return z;
}

// Calls put(element, z) for all elements, whole blocks to a thread.
template <class Put>
void for_each_normal(const Direction& d, std::string_view parameter, int64_t count, Put put) {
  const uint64_t stream = stream_of(d, parameter);
  parallel_ranges(count, kParallelGrain / 16, kNormalsInBlock, [&](int64_t begin, int64_t end) {
    for (int64_t first = begin; first < end; first += kNormalsInBlock) {
      const auto z = normals(d.seed, stream, first / kNormalsInBlock);
      const int64_t here = std::min(kNormalsInBlock, end - first);
      for (int64_t i = 0; i < here; ++i)
        put(static_cast<size_t>(first + i), static_cast<double>(z[static_cast<size_t>(i)]));
    }
  });
}

template <class T>
double wide_number(T x) {
  if constexpr (std::is_same_v<T, bf16>)
    return static_cast<double>(to_float(x));
  else
    return static_cast<double>(x);
}
template <class T>
T rounded_number(double x) {
  if constexpr (std::is_same_v<T, bf16>)
    return to_bf16(static_cast<float>(x));
  else
    return static_cast<T>(x);
}

// Calls f.operator()<T>() with the tensor's type.
template <class F>
void by_float_type(DType type, F f) {
  if (type == DType::f32) return f.template operator()<float>();
  if (type == DType::f64) return f.template operator()<double>();
  TERN_CHECK(type == DType::bf16, "direction: numbers of {}", name_of(type));
  f.template operator()<bf16>();
}

}  // namespace

float direction_at(const Direction& d, std::string_view parameter, int64_t element) {
  const auto z = normals(d.seed, stream_of(d, parameter), element / kNormalsInBlock);
  return z[static_cast<size_t>(element % kNormalsInBlock)];
}

void move_along(const Direction& d, std::string_view parameter, double scale, const Tensor& from, const Tensor& to) {
  TERN_CHECK(from.count() == to.count(), "direction of {}: {} elements to {}", parameter, from.count(), to.count());
  by_float_type(from.dtype(), [&]<class From>() {
    by_float_type(to.dtype(), [&]<class To>() {
      const std::span<const From> w = from.span<From>();
      const std::span<To> out = to.span<To>();
      for_each_normal(d, parameter, to.count(),
                      [&](size_t i, double z) { out[i] = rounded_number<To>(wide_number(w[i]) + scale * z); });
    });
  });
}

void put_direction(const Direction& d, std::string_view parameter, double scale, const Tensor& to) {
  by_float_type(to.dtype(), [&]<class To>() {
    const std::span<To> out = to.span<To>();
    for_each_normal(d, parameter, to.count(), [&](size_t i, double z) { out[i] = rounded_number<To>(scale * z); });
  });
}

}  // namespace tern
