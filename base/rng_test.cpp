#include "base/rng.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace tern {
namespace {

// Random123's published known answers for philox4x32, 10 rounds (kat_vectors).
TEST(Philox, GivesThePublishedKnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Philox4{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
  constexpr uint32_t f = 0xffffffffu;
  EXPECT_EQ(philox({f, f, f, f}, {f, f}), (Philox4{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}));
  EXPECT_EQ(philox({0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}, {0xa4093822u, 0x299f31d0u}),
            (Philox4{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}));
}

TEST(HashName, IsFnv1a) {
  EXPECT_EQ(hash_name(""), 0xcbf29ce484222325u);
  EXPECT_EQ(hash_name("a"), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(hash_name("foobar"), 0x85944171f73967e8u);
}

TEST(RandomValues, DependOnSeedStreamAndIndexOnly) {
  const RngKey key{42, hash_name("weights")};
  EXPECT_EQ(random_u64(key, 7), random_u64(key, 7));
  EXPECT_NE(random_u64(key, 7), random_u64(key, 8));
  EXPECT_NE(random_u64(key, 7), random_u64({43, key.stream}, 7));
  EXPECT_NE(random_u64(key, 7), random_u64({42, hash_name("bias")}, 7));
  EXPECT_NE(random_u64(key, 1), random_u64(key, uint64_t{1} << 32)) << "the index's upper half counts";
  EXPECT_NE(random_u64(key, 1), random_u64({uint64_t{42} << 32, key.stream}, 1)) << "the seed's upper half counts";
}

TEST(RandomUniform, FillsTheUnitIntervalEvenly) {
  const RngKey key{1, 2};
  constexpr int n = 40000, bins = 20;
  std::vector<int> counts(bins);
  for (int i = 0; i < n; ++i) {
    const double x = random_uniform(key, i);
    ASSERT_GE(x, 0.0);
    ASSERT_LT(x, 1.0);
    ++counts[static_cast<size_t>(x * bins)];
  }
  double chi2 = 0;
  for (const int c : counts) chi2 += (c - n / bins) * (c - n / bins) / (n / static_cast<double>(bins));
  EXPECT_LT(chi2, 43.8) << "19 degrees of freedom, p = 0.001";
  EXPECT_GT(chi2, 5.4) << "too even to be random";
}

TEST(RandomNormal, HasTheMomentsOfANormal) {
  const RngKey key{9, hash_name("normal")};
  constexpr int n = 200000;
  double m1 = 0, m2 = 0, m3 = 0, m4 = 0;
  for (int i = 0; i < n; ++i) {
    const double x = random_normal(key, i);
    ASSERT_TRUE(std::isfinite(x));
    m1 += x / n, m2 += x * x / n, m3 += x * x * x / n, m4 += x * x * x * x / n;
  }
  const double s = 1 / std::sqrt(n);  // five standard errors of each moment
  EXPECT_NEAR(m1, 0, 5 * s);
  EXPECT_NEAR(m2, 1, 5 * s * std::sqrt(2.0));
  EXPECT_NEAR(m3, 0, 5 * s * std::sqrt(15.0));
  EXPECT_NEAR(m4, 3, 5 * s * std::sqrt(96.0));
}

TEST(RandomPermutation, VisitsEveryElementOnce) {
  for (const uint64_t size : {1, 2, 3, 4, 5, 16, 17, 63, 64, 65, 1000, 4097}) {
    std::vector<int> seen(size);
    for (uint64_t i = 0; i < size; ++i) {
      const uint64_t j = random_permutation({5, size}, i, size);
      ASSERT_LT(j, size);
      ++seen[j];
    }
    for (uint64_t j = 0; j < size; ++j) ASSERT_EQ(seen[j], 1) << j << " of " << size;
  }
}

TEST(RandomPermutation, ShufflesAndDependsOnTheKey) {
  constexpr uint64_t size = 1000;
  int fixed = 0, same = 0;
  double distance = 0;
  for (uint64_t i = 0; i < size; ++i) {
    const uint64_t j = random_permutation({1, 1}, i, size);
    fixed += j == i;
    same += j == random_permutation({2, 1}, i, size);
    distance += std::abs(static_cast<double>(j) - static_cast<double>(i));
  }
  EXPECT_LT(fixed, 8);
  EXPECT_LT(same, 8);
  EXPECT_NEAR(distance / size, size / 3.0, 30) << "mean distance of a random permutation is a third of its size";
}

TEST(RandomPermutation, WorksOnTheLargestSizes) {
  const uint64_t size = UINT64_MAX;
  EXPECT_NE(random_permutation({1, 1}, 0, size), random_permutation({1, 1}, 1, size));
  EXPECT_LT(random_permutation({1, 1}, size - 1, size), size);
}

}  // namespace
}  // namespace tern
