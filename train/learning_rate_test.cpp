#include "train/learning_rate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace tern {
namespace {

LearningRateSchedule sample(LearningRateKind kind) {
  return {.kind = kind, .peak = 1e-3, .minimum = 1e-4, .warmup_steps = 100, .decay_steps = 50, .total_steps = 600};
}

TEST(LearningRateSchedule, WarmUpIsLinearAndReachesThePeakAtItsLastStep) {
  for (const LearningRateKind kind :
       {LearningRateKind::cosine, LearningRateKind::linear, LearningRateKind::constant, LearningRateKind::wsd}) {
    EXPECT_DOUBLE_EQ(learning_rate(sample(kind), 1), 1e-5);
    EXPECT_DOUBLE_EQ(learning_rate(sample(kind), 37), 37e-5);
    EXPECT_DOUBLE_EQ(learning_rate(sample(kind), 100), 1e-3);
  }
}
// By hand: p = 1/4: cos(π/4) = 0.70710678; 1e-4 + 9e-4·0.85355339 = 8.6819805e-4.
TEST(LearningRateSchedule, CosineByHand) {
  EXPECT_NEAR(learning_rate(sample(LearningRateKind::cosine), 225), 8.6819805153394639e-4, 1e-18);
  EXPECT_NEAR(learning_rate(sample(LearningRateKind::cosine), 350), 5.5e-4, 1e-18);
  EXPECT_NEAR(learning_rate(sample(LearningRateKind::cosine), 600), 1e-4, 1e-18);
  EXPECT_DOUBLE_EQ(learning_rate(sample(LearningRateKind::cosine), 700),
                   learning_rate(sample(LearningRateKind::cosine), 600));
}
TEST(LearningRateSchedule, LinearByHand) {
  EXPECT_NEAR(learning_rate(sample(LearningRateKind::linear), 225), 7.75e-4, 1e-18);
  EXPECT_NEAR(learning_rate(sample(LearningRateKind::linear), 600), 1e-4, 1e-18);
}
TEST(LearningRateSchedule, ConstantStays) {
  EXPECT_DOUBLE_EQ(learning_rate(sample(LearningRateKind::constant), 600), 1e-3);
}
TEST(LearningRateSchedule, WsdIsFlatThenFallsLinearlyOverTheDecay) {
  EXPECT_DOUBLE_EQ(learning_rate(sample(LearningRateKind::wsd), 550), 1e-3);
  EXPECT_NEAR(learning_rate(sample(LearningRateKind::wsd), 575), 5.5e-4, 1e-18);
  EXPECT_NEAR(learning_rate(sample(LearningRateKind::wsd), 600), 1e-4, 1e-18);
}
TEST(LearningRateSchedule, AllWarmUpHasNoDivisionByZero) {
  LearningRateSchedule s = sample(LearningRateKind::cosine);
  s.warmup_steps = s.total_steps = 10;
  EXPECT_DOUBLE_EQ(learning_rate(s, 10), 1e-3);
  EXPECT_DOUBLE_EQ(learning_rate(s, 11), 1e-3);
}
TEST(LearningRateSchedule, RefusesWhatDoesNotFitTheRun) {
  const auto refuses = [](auto change) {
    LearningRateSchedule s = sample(LearningRateKind::wsd);
    change(s);
    EXPECT_THROW(check_schedule(s), Error);
  };
  EXPECT_NO_THROW(check_schedule(sample(LearningRateKind::wsd)));
  refuses([](LearningRateSchedule& s) { s.warmup_steps = 601; });
  refuses([](LearningRateSchedule& s) { s.decay_steps = 501; });
  refuses([](LearningRateSchedule& s) { s.minimum = 2e-3; });
  refuses([](LearningRateSchedule& s) { s.peak = NAN; });
  refuses([](LearningRateSchedule& s) { s.total_steps = 0; });
  EXPECT_THROW(learning_rate_kind_from_name("cosin"), Error);
}

}  // namespace
}  // namespace tern
