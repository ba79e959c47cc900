// GPTQ: the factor is what it says, feedback lowers the error at the output, and codes do not depend on threads.
#include "quantize/gptq.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/rng.h"
#include "base/threads_testing.h"
#include "formats/format_test_support.h"
#include "formats/gguf/block_codes.h"
#include "kernels/cpu/decode.h"
#include "quantize/block_fit.h"
#include "quantize/input_moments.h"

namespace tern {
namespace {

constexpr WeightType kTypes[] = {WeightType::q8_0, WeightType::q5_1, WeightType::q5_0, WeightType::q4_1,
                                 WeightType::q4_0};

std::vector<float> normals(uint64_t seed, size_t count) {
  std::vector<float> x(count);
  for (size_t i = 0; i < count; ++i) x[i] = static_cast<float>(random_normal({seed, hash_name("gptq_test")}, i));
  return x;
}

// t inputs of k columns that depend on each other: neighbours share, some are large.
std::vector<float> inputs(int64_t t, int64_t k, uint64_t seed) {
  const std::vector<float> z = normals(seed, static_cast<size_t>(t * k));
  std::vector<float> x(z.size());
  for (int64_t r = 0; r < t; ++r)
    for (int64_t c = 0; c < k; ++c) {
      const auto at = static_cast<size_t>(r * k + c);
      x[at] = (z[at] + (c > 0 ? 0.9f * x[at - 1] : 0.0f)) * (c % 17 == 0 ? 4.0f : 1.0f);
      if (c % 17 == 0) x[at] *= 0.3f;
    }
  return x;
}

std::vector<double> moments_of(const std::vector<float>& x, int64_t t, int64_t k) {
  std::vector<double> h(static_cast<size_t>(k * k));
  for (int64_t r = 0; r < t; ++r)
    for (int64_t i = 0; i < k; ++i)
      for (int64_t j = 0; j < k; ++j)
        h[static_cast<size_t>(i * k + j)] += static_cast<double>(x[static_cast<size_t>(r * k + i)]) *
                                             static_cast<double>(x[static_cast<size_t>(r * k + j)]);
  return h;
}

// Σ over rows of dᵀ·H·d
double output_error(const std::vector<float>& a, const std::vector<float>& b, const std::vector<double>& h, int64_t n,
                    int64_t k) {
  double total = 0;
  for (int64_t r = 0; r < n; ++r)
    for (int64_t i = 0; i < k; ++i)
      for (int64_t j = 0; j < k; ++j) {
        const auto at = [&](int64_t c) { return static_cast<size_t>(r * k + c); };
        total += static_cast<double>(a[at(i)] - b[at(i)]) * h[static_cast<size_t>(i * k + j)] *
                 static_cast<double>(a[at(j)] - b[at(j)]);
      }
  return total;
}

TEST(Gptq, TheFactorGivesTheInverse) {
  for (const int64_t k : {1, 5, 33, 130}) {
    const std::vector<double> h = moments_of(inputs(3 * k, k, 3), 3 * k, k);
    const std::vector<double> u = error_factor(h, k, 0);
    double largest = 0;
    for (int64_t i = 0; i < k; ++i)
      for (int64_t j = 0; j < k; ++j) {
        double sum = 0;  // (UᵀU·H)ij
        for (int64_t a = 0; a < k; ++a)
          for (int64_t b = 0; b <= std::min(a, i); ++b) {
            const double inverse = u[static_cast<size_t>(b * k + i)] * u[static_cast<size_t>(b * k + a)];
            sum += inverse * h[static_cast<size_t>(a * k + j)];
          }
        // The sum above has b ≤ min(a, i): U is upper triangular.
        largest = std::max(largest, std::fabs(sum - (i == j ? 1 : 0)));
      }
    EXPECT_LT(largest, 1e-9) << k;
    for (int64_t i = 0; i < k; ++i)
      for (int64_t j = 0; j < i; ++j) EXPECT_EQ(u[static_cast<size_t>(i * k + j)], 0);
  }
}

TEST(Gptq, ColumnsNobodyUsedAndTooFewInputsAreToldApart) {
  const int64_t k = 8;
  std::vector<double> h(64, 0.0);
  for (const double u : error_factor(h, k)) EXPECT_TRUE(std::isfinite(u));
  h = moments_of(inputs(2, k, 5), 2, k);  // two inputs, eight columns
  EXPECT_TRUE(throws(ErrorKind::usage, "do not tell its columns apart", [&] {
    h[0] = -1;
    error_factor(h, k, 0);
  }));
  h = moments_of(inputs(2, k, 5), 2, k);
  EXPECT_NO_THROW(error_factor(h, k));
}

TEST(Gptq, AFittedBlockIsNeverWorseThanTheReferences) {
  const std::vector<float> x = normals(11, 32 * 200), importance(32, 1.0f);
  for (const WeightType type : kTypes) {
    const BlockLevels levels = levels_of(type);
    double better = 0, fitted_sum = 0, reference_sum = 0;
    for (size_t i = 0; i < x.size(); i += 32) {
      const std::span<const float, 32> block(x.data() + i, 32);
      const BlockCodes fit = fit_block(type, block, std::span<const float, 32>(importance.data(), 32));
      std::string bytes;
      round_blocks(type, block, "x", bytes);
      std::vector<float> reference(32);
      decode_blocks(type, std::as_bytes(std::span(bytes)), reference);
      double a = 0, b = 0;
      for (size_t j = 0; j < 32; ++j) {
        a += std::pow(static_cast<double>(block[j] - number_of(fit, levels, fit.codes[j])), 2);
        b += std::pow(static_cast<double>(block[j] - reference[j]), 2);
      }
      EXPECT_LE(a, b * (1 + 1e-6)) << name_of(type) << " block " << i / 32;
      better += a < b, fitted_sum += a, reference_sum += b;
    }
    EXPECT_GT(better, 100) << name_of(type);
    std::printf("%s: fitted %.3f of the reference's squares\n", std::string(name_of(type)).c_str(),
                fitted_sum / reference_sum);
  }
}

TEST(Gptq, FeedbackLowersTheErrorAtTheOutput) {
  const int64_t n = 24, k = 96, t = 400;
  const std::vector<float> w = normals(21, static_cast<size_t>(n * k));
  const std::vector<double> h = moments_of(inputs(t, k, 22), t, k), factor = error_factor(h, k);
  for (const WeightType type : kTypes) {
    std::vector<float> alone = w, fed = w;
    gptq_blocks(type, alone, n, k, {});
    const std::vector<std::byte> blocks = gptq_blocks(type, fed, n, k, factor);
    const double without = output_error(w, alone, h, n, k), with = output_error(w, fed, h, n, k);
    std::printf("%s: %.3f of the error without feedback\n", std::string(name_of(type)).c_str(), with / without);
    EXPECT_LT(with, 0.8 * without) << name_of(type);
    std::vector<float> decoded(fed.size());
    decode_blocks(type, blocks, decoded);
    EXPECT_EQ(decoded, fed) << name_of(type) << ": the rows become the numbers of their blocks";
  }
}

// The paper's own steps, in f64: after each column the inverse of what is left, by elimination.
std::vector<float> plain_gptq(WeightType type, const std::vector<float>& w, const std::vector<double>& h, int64_t n,
                              int64_t k) {
  const BlockLevels levels = levels_of(type);
  const std::vector<double> u = error_factor(h, k);
  std::vector<double> inverse(static_cast<size_t>(k * k));
  const auto at = [&](int64_t i, int64_t j) { return static_cast<size_t>(i * k + j); };
  for (int64_t i = 0; i < k; ++i)
    for (int64_t j = 0; j < k; ++j)
      for (int64_t b = 0; b <= std::min(i, j); ++b) inverse[at(i, j)] += u[at(b, i)] * u[at(b, j)];
  std::vector<double> left(w.begin(), w.end());
  std::vector<float> numbers(w.size());
  std::vector<BlockCodes> blocks(static_cast<size_t>(n));
  for (int64_t c = 0; c < k; ++c) {
    for (int64_t r = 0; r < n; ++r) {
      double* row = left.data() + r * k;
      BlockCodes& block = blocks[static_cast<size_t>(r)];
      if (c % 32 == 0) {
        float x[32], importance[32];
        for (int64_t j = 0; j < 32; ++j) {
          x[j] = static_cast<float>(row[c + j]);
          importance[j] = static_cast<float>(1 / (u[at(c + j, c + j)] * u[at(c + j, c + j)]));
        }
        block = fit_block(type, x, importance);
      }
      const float number = number_of(block, levels, nearest_code(block, levels, static_cast<float>(row[c])));
      numbers[static_cast<size_t>(r * k + c)] = number;
      const double error = (row[c] - static_cast<double>(number)) / inverse[at(c, c)];
      for (int64_t j = c + 1; j < k; ++j) row[j] -= error * inverse[at(c, j)];
    }
    for (int64_t i = c + 1; i < k; ++i)
      for (int64_t j = c + 1; j < k; ++j)
        inverse[at(i, j)] -= inverse[at(i, c)] * inverse[at(c, j)] / inverse[at(c, c)];
  }
  return numbers;
}

// A number that lies between two codes may fall either way by the f32 of the rows; what follows in its row then differs too.
TEST(Gptq, CodesAreThoseOfThePlainTwin) {
  const int64_t n = 40, k = 96, t = 400;
  const std::vector<float> w = normals(51, static_cast<size_t>(n * k));
  const std::vector<double> h = moments_of(inputs(t, k, 52), t, k);
  for (const WeightType type : kTypes) {
    std::vector<float> fast = w;
    gptq_blocks(type, fast, n, k, error_factor(h, k));
    const std::vector<float> plain = plain_gptq(type, w, h, n, k);
    int64_t rows_apart = 0;
    for (int64_t r = 0; r < n; ++r)
      rows_apart += !std::equal(fast.begin() + r * k, fast.begin() + (r + 1) * k, plain.begin() + r * k);
    std::printf("%s: %ld of %ld rows apart\n", std::string(name_of(type)).c_str(), static_cast<long>(rows_apart),
                static_cast<long>(n));
    EXPECT_LE(rows_apart, n / 10) << name_of(type);
    EXPECT_NEAR(output_error(w, fast, h, n, k), output_error(w, plain, h, n, k),
                0.02 * output_error(w, plain, h, n, k));
  }
}

// U4, U3, U2: no worse than even steps from the least to the largest number; nearer at the output with feedback.
TEST(Gptq, UniformTypesInF32FitTheirGroups) {
  const int64_t n = 24, k = 128, t = 400;
  const std::vector<float> w = normals(71, static_cast<size_t>(n * k));
  const std::vector<double> h = moments_of(inputs(t, k, 72), t, k), factor = error_factor(h, k);
  for (const WeightType type : {WeightType::u4, WeightType::u3, WeightType::u2}) {
    const int most = fitted_levels(type).most;
    std::vector<float> alone = w, fed = w, decoded(w.size());
    EXPECT_EQ(static_cast<int64_t>(gptq_blocks(type, alone, n, k, {}).size()), stored_bytes(type, n, k));
    double fitted = 0, even = 0;
    for (size_t g = 0; g < w.size(); g += 64) {
      const auto [least, largest] = std::ranges::minmax(std::span(w).subspan(g, 64));
      const double step = (static_cast<double>(largest) - static_cast<double>(least)) / most;
      for (size_t i = g; i < g + 64; ++i) {
        const double x = static_cast<double>(w[i]), low = static_cast<double>(least);
        even += std::pow(x - (low + step * std::nearbyint((x - low) / step)), 2);
        fitted += std::pow(x - static_cast<double>(alone[i]), 2);
      }
    }
    std::printf("%s: fitted %.3f of the squares of even steps\n", std::string(name_of(type)).c_str(), fitted / even);
    EXPECT_LT(fitted, 0.9 * even) << name_of(type);
    const std::vector<std::byte> blocks = gptq_blocks(type, fed, n, k, factor);
    EXPECT_LT(output_error(w, fed, h, n, k), 0.8 * output_error(w, alone, h, n, k)) << name_of(type);
    decode_blocks(type, blocks, decoded);
    EXPECT_EQ(decoded, fed) << name_of(type);
  }
}

// Feedback lowers the error at the output, and numbers are those that the decoder makes.
TEST(Gptq, NormalFloatsTakeErrorsBack) {
  const int64_t n = 24, k = 128, t = 400;
  const std::vector<float> w = normals(73, static_cast<size_t>(n * k));
  const std::vector<double> h = moments_of(inputs(t, k, 74), t, k);
  for (const WeightType type : {WeightType::nf4, WeightType::nf4_1}) {
    std::vector<float> alone = w, fed = w, decoded(w.size());
    gptq_blocks(type, alone, n, k, {});
    const std::vector<std::byte> blocks = gptq_blocks(type, fed, n, k, error_factor(h, k));
    EXPECT_LT(output_error(w, fed, h, n, k), 0.8 * output_error(w, alone, h, n, k)) << name_of(type);
    decode_blocks(type, blocks, decoded);
    EXPECT_EQ(decoded, fed) << name_of(type);
  }
}

TEST(Gptq, MomentsOfSeveralCallsAddUp) {
  const int64_t t = 24, k = 40;
  const std::vector<float> x = inputs(t, k, 61);
  Arena arena;
  const Tensor rows = arena.allocate(DType::f32, {t, k}, MemoryClass::activations);
  std::ranges::copy(x, rows.span<float>().begin());
  const Linear linear{.out = 1, .in = k}, other{.out = 2, .in = k};
  InputMoments moments(arena, [&](const Linear& l) { return &l == &linear; });
  moments.see(linear, rows.rows_view(0, 7));
  moments.see(other, rows);
  moments.see(linear, rows.rows_view(7, t));
  EXPECT_EQ(moments.of(other), nullptr);
  const std::vector<double> want = moments_of(x, t, k);
  for (size_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR((*moments.of(linear))[i], want[i], 1e-5 * std::sqrt(want[i / k * k + i / k] * want[i % k * k + i % k]));
}

TEST(Gptq, InputsThatAreApartNeedNoFeedback) {
  const int64_t n = 3, k = 64;
  std::vector<double> h(static_cast<size_t>(k * k));
  for (int64_t i = 0; i < k; ++i) h[static_cast<size_t>(i * k + i)] = 2;
  const std::vector<float> w = normals(31, static_cast<size_t>(n * k));
  std::vector<float> a = w, b = w;
  EXPECT_EQ(gptq_blocks(WeightType::q4_1, a, n, k, error_factor(h, k)), gptq_blocks(WeightType::q4_1, b, n, k, {}));
}

TEST(Gptq, ThreadsChangeNoByte) {
  const int64_t n = 37, k = 320, t = 700;
  const std::vector<float> w = normals(41, static_cast<size_t>(n * k));
  const std::vector<double> h = moments_of(inputs(t, k, 42), t, k);
  std::vector<std::byte> one, two;
  with_threads(1, [&] {
    std::vector<float> rows = w;
    one = gptq_blocks(WeightType::q4_0, rows, n, k, error_factor(h, k));
  });
  with_threads(3, [&] {
    std::vector<float> rows = w;
    two = gptq_blocks(WeightType::q4_0, rows, n, k, error_factor(h, k));
  });
  EXPECT_EQ(one, two);
}

}  // namespace
}  // namespace tern
