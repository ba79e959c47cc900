#pragma once
// What every kernel test needs: guarded buffers, seeded values, a comparator that NaN and wrong signs cannot pass, and
// each instruction set in turn. Only *_test.cpp includes it.

#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "base/dtype.h"
#include "base/rng.h"
#include "base/threads_testing.h"
#include "kernels/dispatch.h"

namespace tern {

/// Unit roundoff of a type's significand.
template <class T>
inline constexpr double kRoundoff = 0x1p-53;
template <>
inline constexpr double kRoundoff<float> = 0x1p-24;
template <>
inline constexpr double kRoundoff<bf16> = 0x1p-8;
template <>
inline constexpr double kRoundoff<f16> = 0x1p-11;

inline double value_of(double x) { return x; }
template <class T>
double value_of(T x) {
  return static_cast<double>(to_float(x));
}
template <class T>
T rounded(double x) {
  if constexpr (std::is_same_v<T, bf16>)
    return to_bf16(static_cast<float>(x));
  else
    return static_cast<T>(x);
}

/// The seed of this run: TERN_TEST_SEED, or 1. Printed with every failure by SCOPED_TRACE in for_each_isa.
inline uint64_t test_seed() {
  const char* text = std::getenv("TERN_TEST_SEED");
  return text ? std::strtoull(text, nullptr, 10) : 1;
}

/// `size` normal values, rounded to T: the twin sees the same numbers, so that only the kernel's own error is judged.
template <class T>
std::vector<T> random_values(std::string_view name, int64_t size, double spread = 1, double offset = 0) {
  std::vector<T> values(static_cast<size_t>(size));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = rounded<T>(offset + spread * random_normal({test_seed(), hash_name(name)}, i));
  return values;
}
template <class T>
std::vector<double> doubles(std::span<const T> x) {
  std::vector<double> y(x.size());
  for (size_t i = 0; i < x.size(); ++i) y[i] = value_of(x[i]);
  return y;
}
template <class T>
std::vector<double> doubles(const std::vector<T>& x) {
  return doubles(std::span<const T>(x));
}

inline std::vector<double> magnitudes(std::vector<double> v) {
  for (double& x : v) x = std::abs(x);
  return v;
}

/// Sizes of a matrix product: m rows and n columns, each a sum of k terms; of its gradients, too.
struct ProductSize {
  int64_t m, n, k;
};

/// A buffer between canaries, filled with NaN: what a kernel leaves unwritten, or writes beside, is seen.
template <class T>
class Guarded {
 public:
  // noinline: where a size is known, GCC 12 imagines an empty buffer and warns of its bounds
  [[gnu::noinline]] explicit Guarded(size_t size) : size_(size), bytes_(kGuard, kCanary) {
    bytes_.resize(kGuard + size * sizeof(T), 0xff);  // all ones is a NaN in f64, f32, bf16 and f16
    bytes_.resize(bytes_.size() + kGuard, kCanary);
  }
  explicit Guarded(const std::vector<T>& values) : Guarded(values.size()) {
    if (!values.empty()) std::memcpy(data(), values.data(), values.size() * sizeof(T));
  }
  T* data() { return reinterpret_cast<T*>(bytes_.data() + kGuard); }
  std::span<T> span() { return {data(), size_}; }
  std::span<const T> values() { return {data(), size_}; }
  bool guards_intact() const {
    for (size_t i = 0; i < kGuard; ++i)
      if (bytes_[i] != kCanary || bytes_[bytes_.size() - 1 - i] != kCanary) return false;
    return true;
  }

 private:
  static constexpr size_t kGuard = 256;
  static constexpr uint8_t kCanary = 0xa5;
  size_t size_;
  std::vector<uint8_t> bytes_;
};

/// |got - want| <= absolute + relative·|want|, elementwise; NaN anywhere fails.
struct Tolerance {
  double absolute = 0, relative = 0;
};
template <class T>
testing::AssertionResult is_close(std::span<const T> got, std::span<const double> want, Tolerance tolerance) {
  if (got.size() != want.size() || !std::isfinite(tolerance.absolute) || !std::isfinite(tolerance.relative))
    return testing::AssertionFailure() << got.size() << " values, want " << want.size();
  for (size_t i = 0; i < got.size(); ++i)
    if (!(std::abs(value_of(got[i]) - want[i]) <= tolerance.absolute + tolerance.relative * std::abs(want[i])))
      return testing::AssertionFailure() << "[" << i << "] got " << value_of(got[i]) << ", want " << want[i] << " +- "
                                         << tolerance.absolute << " +- " << tolerance.relative << " relative";
  return testing::AssertionSuccess();
}
/// Close, and nothing beside the buffer was touched.
template <class T>
testing::AssertionResult is_close(Guarded<T>& got, const std::vector<double>& want, Tolerance tolerance) {
  if (!got.guards_intact()) return testing::AssertionFailure() << "wrote beside the buffer";
  return is_close(got.values(), std::span<const double>(want), tolerance);
}
/// The same bits: -0 and NaN count.
template <class T>
testing::AssertionResult same_bits(std::span<const T> got, std::span<const T> want) {
  if (got.size() != want.size()) return testing::AssertionFailure() << got.size() << " values, want " << want.size();
  for (size_t i = 0; i < got.size(); ++i)
    if (std::memcmp(&got[i], &want[i], sizeof(T)) != 0)
      return testing::AssertionFailure() << "[" << i << "] bits of " << value_of(got[i]) << ", want "
                                         << value_of(want[i]);
  return testing::AssertionSuccess();
}

/// Runs the check on every instruction set that may run here, and leaves the set as it was.
template <class Check>
void for_each_isa(Check check) {
  const Isa before = active_isa();
  for (const Isa isa : available_isas()) {
    SCOPED_TRACE(std::string(name_of(isa)) + ", TERN_TEST_SEED=" + std::to_string(test_seed()));
    force_isa(isa);
    check();
  }
  force_isa(before);
}
/// On those that have something of their own; a machine without any skips, as nothing was shown there.
template <class Has, class Check>
void for_each_isa_that(Has has, const char* what, Check check) {
  int sets = 0;
  for_each_isa([&] {
    if (!has()) return;
    ++sets;
    check();
  });
  if (!sets) GTEST_SKIP() << "no instruction set here " << what;
}
/// (f(+h) - f(-h)) / 2h where f evaluates a scalar at x + t·direction.
template <class F>
double slope(F f, double h) {
  return (f(h) - f(-h)) / (2 * h);
}

}  // namespace tern
