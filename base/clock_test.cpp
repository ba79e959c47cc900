#include "base/clock.h"

#include <gtest/gtest.h>

namespace tern {
namespace {

TEST(Clock, RealTimePassesAndVirtualTimeWaits) {
  const int64_t before = real_clock().now_ns();
  real_clock().sleep_ns(2'000'000);
  EXPECT_GE(real_clock().now_ns() - before, 2'000'000);
  EXPECT_GT(real_clock().wall_ns(), 1'700'000'000'000'000'000);
  VirtualClock clock(1000);
  EXPECT_EQ(clock.now_ns(), 0);
  clock.sleep_ns(5'000'000'000);
  EXPECT_EQ(clock.now_ns(), 5'000'000'000);
  EXPECT_EQ(clock.wall_ns(), 5'000'001'000);
  EXPECT_DOUBLE_EQ(seconds_between(0, clock.now_ns()), 5.0);
}

}  // namespace
}  // namespace tern
