#include "report/ticks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace tern {
namespace {

std::vector<std::string> labels(const Ticks& ticks) {
  std::vector<std::string> out;
  for (const Tick& tick : ticks.ticks) out.push_back(tick.label);
  return out;
}
using Labels = std::vector<std::string>;

TEST(LinearTicks, AreRoundNumbersThatEncloseTheRange) {
  EXPECT_EQ(labels(linear_ticks(0, 600, 6)), (Labels{"0", "100", "200", "300", "400", "500", "600"}));
  EXPECT_EQ(labels(linear_ticks(1.31, 2.17, 5)), (Labels{"1.2", "1.4", "1.6", "1.8", "2.0", "2.2"}));
  EXPECT_EQ(labels(linear_ticks(0, 10, 4)), (Labels{"0", "5", "10"}));
  EXPECT_EQ(labels(linear_ticks(-3, 4, 4)), (Labels{"-4", "-2", "0", "2", "4"}));
  EXPECT_EQ(labels(linear_ticks(0, 50000, 5)), (Labels{"0", "10k", "20k", "30k", "40k", "50k"}));
  EXPECT_EQ(labels(linear_ticks(1.2e6, 1.6e6, 4)), (Labels{"1.2M", "1.3M", "1.4M", "1.5M", "1.6M"}));
}

TEST(LinearTicks, HoldForAnyRange) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> exponent(-12, 12), unit(-1, 1);
  for (int trial = 0; trial < 2000; ++trial) {
    const double a = unit(random) * std::pow(10, exponent(random)),
                 b = a + std::abs(unit(random)) * std::pow(10, exponent(random));
    const Ticks ticks = linear_ticks(a, b, 6);
    ASSERT_GE(ticks.ticks.size(), 2u) << a << " " << b;
    ASSERT_LE(ticks.ticks.size(), 14u) << a << " " << b;
    const double slack = 1e-6 * (ticks.high - ticks.low);
    ASSERT_LE(ticks.low, a + slack) << a << " " << b;
    ASSERT_GE(ticks.high, b - slack) << a << " " << b;
    for (size_t i = 1; i < ticks.ticks.size(); ++i) ASSERT_LT(ticks.ticks[i - 1].value, ticks.ticks[i].value);
  }
}

TEST(LinearTicks, WidenAnEmptyRangeAndRefuseNonsense) {
  const Ticks ticks = linear_ticks(3, 3, 5);
  EXPECT_LT(ticks.low, 3);
  EXPECT_GT(ticks.high, 3);
  EXPECT_ANY_THROW(linear_ticks(2, 1, 5));
  EXPECT_ANY_THROW(linear_ticks(NAN, 1, 5));
}

TEST(LogTicks, TakePowersAndFillInBetweenWhereFew) {
  EXPECT_EQ(labels(log_ticks(0.001, 1000)), (Labels{"0.001", "0.01", "0.1", "1", "10", "100", "1000"}));
  EXPECT_EQ(labels(log_ticks(1e-6, 1e-4)), (Labels{"1e-06", "2e-06", "5e-06", "1e-05", "2e-05", "5e-05", "1e-04"}));
  EXPECT_EQ(labels(log_ticks(3, 60)), (Labels{"5", "10", "20", "50"}));
  EXPECT_EQ(labels(log_ticks(1.5, 7.3)), (Labels{"2", "3", "4", "5", "6", "7"}));
  EXPECT_GE(log_ticks(1.1, 1.3).ticks.size(), 2u);
  EXPECT_GT(log_ticks(1.1, 1.3).low, 0);
  EXPECT_ANY_THROW(log_ticks(0, 1));
}

}  // namespace
}  // namespace tern
