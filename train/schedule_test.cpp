#include "train/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace tern {
namespace {

Schedule sample(ScheduleKind kind) {
  return {.kind = kind, .peak = 1e-3, .minimum = 1e-4, .warmup_steps = 100, .decay_steps = 50, .total_steps = 600};
}

TEST(Schedule, WarmUpIsLinearAndReachesThePeakAtItsLastStep) {
  for (const ScheduleKind kind :
       {ScheduleKind::cosine, ScheduleKind::linear, ScheduleKind::constant, ScheduleKind::wsd}) {
    EXPECT_DOUBLE_EQ(learning_rate(sample(kind), 1), 1e-5);
    EXPECT_DOUBLE_EQ(learning_rate(sample(kind), 37), 37e-5);
    EXPECT_DOUBLE_EQ(learning_rate(sample(kind), 100), 1e-3);
  }
}
// By hand: p = 1/4: cos(π/4) = 0.70710678; 1e-4 + 9e-4·0.85355339 = 8.6819805e-4.
TEST(Schedule, CosineByHand) {
  EXPECT_NEAR(learning_rate(sample(ScheduleKind::cosine), 225), 8.6819805153394639e-4, 1e-18);
  EXPECT_NEAR(learning_rate(sample(ScheduleKind::cosine), 350), 5.5e-4, 1e-18);
  EXPECT_NEAR(learning_rate(sample(ScheduleKind::cosine), 600), 1e-4, 1e-18);
  EXPECT_DOUBLE_EQ(learning_rate(sample(ScheduleKind::cosine), 700), learning_rate(sample(ScheduleKind::cosine), 600));
}
TEST(Schedule, LinearByHand) {
  EXPECT_NEAR(learning_rate(sample(ScheduleKind::linear), 225), 7.75e-4, 1e-18);
  EXPECT_NEAR(learning_rate(sample(ScheduleKind::linear), 600), 1e-4, 1e-18);
}
TEST(Schedule, ConstantStays) { EXPECT_DOUBLE_EQ(learning_rate(sample(ScheduleKind::constant), 600), 1e-3); }
TEST(Schedule, WsdIsFlatThenFallsLinearlyOverTheDecay) {
  EXPECT_DOUBLE_EQ(learning_rate(sample(ScheduleKind::wsd), 550), 1e-3);
  EXPECT_NEAR(learning_rate(sample(ScheduleKind::wsd), 575), 5.5e-4, 1e-18);
  EXPECT_NEAR(learning_rate(sample(ScheduleKind::wsd), 600), 1e-4, 1e-18);
}
TEST(Schedule, AllWarmUpHasNoDivisionByZero) {
  Schedule s = sample(ScheduleKind::cosine);
  s.warmup_steps = s.total_steps = 10;
  EXPECT_DOUBLE_EQ(learning_rate(s, 10), 1e-3);
  EXPECT_DOUBLE_EQ(learning_rate(s, 11), 1e-3);
}
TEST(Schedule, RefusesWhatDoesNotFitTheRun) {
  const auto refuses = [](auto change) {
    Schedule s = sample(ScheduleKind::wsd);
    change(s);
    EXPECT_THROW(check_schedule(s), Error);
  };
  EXPECT_NO_THROW(check_schedule(sample(ScheduleKind::wsd)));
  refuses([](Schedule& s) { s.warmup_steps = 601; });
  refuses([](Schedule& s) { s.decay_steps = 501; });
  refuses([](Schedule& s) { s.minimum = 2e-3; });
  refuses([](Schedule& s) { s.peak = NAN; });
  refuses([](Schedule& s) { s.total_steps = 0; });
  EXPECT_THROW(schedule_from_name("cosin"), Error);
}

}  // namespace
}  // namespace tern
