// LoftQ: the error falls from round to round, the first is that of codes and the best product beside them, and what is written is it.
#include "quantize/loftq.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/rng.h"
#include "kernels/cpu/decode.h"
#include "kernels/lapack/svd.h"
#include "quantize/gptq.h"

namespace tern {
namespace {

std::vector<float> numbers(int64_t n, int64_t in, uint64_t seed) {
  std::vector<float> w(static_cast<size_t>(n * in));
  for (size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(0.02 * random_normal({seed, 1}, i));
  return w;
}

// Σ (w - q - b·a)² of what it returned, by plain loops.
double error_of(WeightType type, const std::vector<float>& w, int64_t in, const LoftqCodes& codes) {
  std::vector<float> q(w.size());
  decode_blocks(type, codes.rows, q);
  double sum = 0;
  for (size_t at = 0; at < w.size(); ++at) {
    const int64_t o = static_cast<int64_t>(at) / in, k = static_cast<int64_t>(at) % in;
    double left = static_cast<double>(w[at]) - static_cast<double>(q[at]);
    for (const LowRankRows& p : codes.parts)
      for (int64_t r = 0; r < p.rank && o >= p.row_begin && o < p.row_end; ++r)
        left -= p.b[static_cast<size_t>((o - p.row_begin) * p.rank + r)] * p.a[static_cast<size_t>(r * in + k)];
    sum += left * left;
  }
  return sum;
}

TEST(Loftq, TheErrorFallsFromRoundToRound) {
  for (const WeightType type : {WeightType::u4, WeightType::u2, WeightType::q4_0, WeightType::nf4, WeightType::nf4_1}) {
    const std::vector<float> w = numbers(40, 128, 5);
    const LoftqCodes codes = loftq(type, w, 128, {{0, 24, 6}, {24, 40, 4}}, 5);
    ASSERT_EQ(codes.errors.size(), 5u);
    std::vector<float> alone(w);
    gptq_blocks(type, alone, 40, 128, {});
    double plain = 0;
    for (size_t i = 0; i < w.size(); ++i)
      plain += std::pow(static_cast<double>(w[i]) - static_cast<double>(alone[i]), 2);
    EXPECT_LT(codes.errors[0], plain);
    for (size_t r = 1; r < 5 && type != WeightType::nf4_1; ++r)  // NF4_1's codes are not chosen for their error
      EXPECT_LT(codes.errors[r], codes.errors[r - 1]) << name_of(type) << " round " << r + 1;
    EXPECT_LT(codes.errors[4], 0.97 * codes.errors[0]) << name_of(type);
    EXPECT_NEAR(codes.squares, 40 * 128 * 4e-4, 0.1 * 40 * 128 * 4e-4);
    EXPECT_NEAR(error_of(type, w, 128, codes), codes.errors[4], 1e-9 * codes.errors[4]) << name_of(type);
  }
}

// One round: codes of the matrix itself, and of what they leave out the part that a product of this rank can have.
TEST(Loftq, OneRoundLeavesTheSmallSingularValuesOfTheRoundingError) {
  const std::vector<float> w = numbers(30, 64, 9);
  const LoftqCodes codes = loftq(WeightType::u4, w, 64, {{0, 30, 5}}, 1);
  std::vector<float> coded(w);
  EXPECT_EQ(codes.rows, gptq_blocks(WeightType::u4, coded, 30, 64, {}));
  std::vector<double> left(w.size());
  for (size_t i = 0; i < w.size(); ++i) left[i] = static_cast<double>(w[i]) - static_cast<double>(coded[i]);
  const ThinSvd svd = thin_svd(left, 30, 64);
  double rest = 0;
  for (size_t i = 5; i < svd.s.size(); ++i) rest += svd.s[i] * svd.s[i];
  EXPECT_NEAR(codes.errors[0], rest, 1e-9 * rest);
}

// Rows of no part are coded as they are.
TEST(Loftq, RowsOfNoPartAreCodedAlone) {
  const std::vector<float> w = numbers(20, 64, 11);
  const LoftqCodes codes = loftq(WeightType::u4, w, 64, {{0, 10, 3}}, 4);
  std::vector<float> coded(w);
  const std::vector<std::byte> alone = gptq_blocks(WeightType::u4, coded, 20, 64, {});
  ASSERT_EQ(codes.rows.size(), alone.size());
  const size_t half = alone.size() / 2;
  EXPECT_EQ(std::memcmp(codes.rows.data() + half, alone.data() + half, half), 0);
  EXPECT_NE(std::memcmp(codes.rows.data(), alone.data(), half), 0);
}

}  // namespace
}  // namespace tern
