// Blocks of 256 numbers in Q4_K, Q5_K and Q6_K: numbers are those of the decoder, and near; feedback makes outputs nearer.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/rng.h"
#include "base/threads_testing.h"
#include "kernels/cpu/decode.h"
#include "quantize/gptq.h"

namespace tern {
namespace {

constexpr WeightType kOf256[] = {WeightType::q4_k, WeightType::q5_k, WeightType::q6_k};

std::vector<float> k_numbers(uint64_t seed, size_t count) {
  std::vector<float> x(count);
  for (size_t i = 0; i < count; ++i) x[i] = static_cast<float>(random_normal({seed, hash_name("k_coder_test")}, i));
  return x;
}

double squares_of_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
  return sum;
}

// What gptq_blocks leaves in the place of the rows; the decoder makes the same numbers of the blocks, to the bit.
std::vector<float> coded_numbers(WeightType type, std::vector<float> rows, int64_t n, int64_t k,
                                 const std::vector<double>& factor = {}) {
  const std::vector<std::byte> blocks = gptq_blocks(type, rows, n, k, factor);
  EXPECT_EQ(static_cast<int64_t>(blocks.size()), stored_bytes(type, n, k));
  std::vector<float> decoded(rows.size());
  decode_blocks(type, blocks, decoded);
  EXPECT_EQ(std::memcmp(decoded.data(), rows.data(), 4 * rows.size()), 0) << name_of(type);
  return rows;
}

TEST(KCoder, NumbersAreTheDecodersAndMoreBitsAreNearer) {
  const std::vector<float> x = k_numbers(1, 256 * 40);
  double squares = 0;
  for (const float v : x) squares += static_cast<double>(v) * static_cast<double>(v);
  double before = 1;
  // Of the root mean square of normal numbers; measured: 0.0709, 0.0350, 0.0167.
  for (const auto& [type, most] :
       {std::pair{WeightType::q4_k, 0.076}, {WeightType::q5_k, 0.038}, {WeightType::q6_k, 0.020}}) {
    const double error = std::sqrt(squares_of_difference(x, coded_numbers(type, x, 4, 2560)) / squares);
    std::printf("%s: %.4f\n", std::string(name_of(type)).c_str(), error);
    EXPECT_LT(error, most) << name_of(type);
    EXPECT_LT(error, before) << name_of(type);
    before = error;
  }
}

// Rows of zeros, of one number, of numbers beside a large one, of both signs alone, beyond f16 and below it.
TEST(KCoder, AwkwardRowsStayNear) {
  const std::vector<float> random = k_numbers(2, 256);
  const auto check = [&](const char* what, double allowed, auto&& value) {
    std::vector<float> x(256);
    float most = 0;
    for (size_t i = 0; i < x.size(); ++i) x[i] = value(i), most = std::max(most, std::fabs(x[i]));
    for (const WeightType type : kOf256) {
      const std::vector<float> made = coded_numbers(type, x, 1, 256);
      for (size_t i = 0; i < x.size(); ++i) {
        ASSERT_TRUE(std::isfinite(made[i])) << what;
        EXPECT_NEAR(made[i], x[i], allowed * static_cast<double>(most)) << what << " " << name_of(type) << " " << i;
      }
      const std::vector<float> zeros(x.size());
      EXPECT_LE(squares_of_difference(x, made), squares_of_difference(x, zeros)) << what << " " << name_of(type);
    }
  };
  check("zeros", 0, [](size_t) { return 0.0f; });
  check("one negative number", 0.01, [](size_t) { return -0.75f; });
  check("one positive number", 0.04, [](size_t) { return 0.75f; });
  check("positive numbers", 0.07, [&](size_t i) { return 1 + std::fabs(random[i]); });
  check("negative numbers", 0.07, [&](size_t i) { return -1 - std::fabs(random[i]); });
  check("an outlier", 0.04, [&](size_t i) { return i == 77 ? 100.0f : random[i]; });
  check("parts of zeros", 0.08, [&](size_t i) { return i / 32 % 2 == 0 ? 0.0f : random[i]; });
  check("large numbers", 0.08, [&](size_t i) { return 1e5f * random[i]; });
  check("numbers below f16's", 1, [&](size_t i) { return 1e-9f * random[i]; });
  check("numbers at the end of f16's", 1, [&](size_t i) { return 1e-5f * random[i]; });
  check("as small, one larger in each part", 1, [](size_t i) {
    return i % 32 == 0 ? -1e-5f : i % 2 == 0 ? 1e-8f : -1e-8f;
  });
}

// Importance moves the error to where it costs little; errors taken back by later columns lower it at the output.
TEST(KCoder, FeedbackLowersTheErrorAtTheOutputForAnyThreads) {
  constexpr int64_t n = 6, k = 512, t = 700;
  const std::vector<float> z = k_numbers(3, static_cast<size_t>(t * k)),
                           weights = k_numbers(4, static_cast<size_t>(n * k));
  std::vector<double> h(static_cast<size_t>(k * k));
  std::vector<double> x(static_cast<size_t>(k));
  for (int64_t r = 0; r < t; ++r) {
    for (int64_t c = 0; c < k; ++c)
      x[static_cast<size_t>(c)] =
          static_cast<double>(z[static_cast<size_t>(r * k + c)]) + (c > 0 ? 0.9 * x[static_cast<size_t>(c - 1)] : 0);
    for (int64_t i = 0; i < k; ++i)
      for (int64_t j = 0; j < k; ++j)
        h[static_cast<size_t>(i * k + j)] += x[static_cast<size_t>(i)] * x[static_cast<size_t>(j)];
  }
  const auto output_error_of = [&](const std::vector<float>& made) {
    double total = 0;
    for (int64_t r = 0; r < n; ++r)
      for (int64_t i = 0; i < k; ++i)
        for (int64_t j = 0; j < k; ++j) {
          const auto d = [&](int64_t c) {
            return static_cast<double>(made[static_cast<size_t>(r * k + c)] - weights[static_cast<size_t>(r * k + c)]);
          };
          total += d(i) * h[static_cast<size_t>(i * k + j)] * d(j);
        }
    return total;
  };
  const std::vector<double> factor = error_factor(h, k);
  for (const WeightType type : kOf256) {
    const double alone = output_error_of(coded_numbers(type, weights, n, k));
    const std::vector<float> made = coded_numbers(type, weights, n, k, factor);
    std::printf("%s: error at the output %.3f of each block's by itself\n", std::string(name_of(type)).c_str(),
                output_error_of(made) / alone);
    EXPECT_LT(output_error_of(made), 0.5 * alone) << name_of(type);
    with_threads(3, [&] { EXPECT_EQ(coded_numbers(type, weights, n, k, factor), made); });
  }
}

}  // namespace
}  // namespace tern
