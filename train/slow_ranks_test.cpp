// Which rank is told of as slow, and when.
#include "train/slow_ranks.h"

#include <gtest/gtest.h>

namespace tern {
namespace {

// Steps of four ranks, two of each stage; of the second stage's twice as long. `slow`: rank 3 in steps from `begin` on.
std::vector<std::string> told_of(double slow, int begin, int end, double unit = 1) {
  SlowRanks ranks(2);
  std::vector<std::string> told;
  for (int step = 0; step < 60; ++step) {
    const double noise = 0.02 * (step % 5);
    std::vector<double> seconds{unit * (1 + noise), unit, unit * 2, unit * (2 - noise)};
    if (begin <= step && step < end) seconds[3] *= slow;
    if (const auto text = ranks.add(seconds)) told.push_back(*text);
  }
  return told;
}

TEST(SlowRanks, OneThatComputesLongerThanItsLikeIsToldOfOnce) {
  const std::vector<std::string> told = told_of(2.6, 0, 60);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_NE(told[0].find("rank 3 computes slower"), std::string::npos) << told[0];
  EXPECT_NE(told[0].find("2.5 times as long"), std::string::npos) << told[0];
}

TEST(SlowRanks, AndOnceMoreIfItWasAsFastAsTheOthersBetween) {
  SlowRanks ranks(2);
  int told = 0;
  for (int step = 0; step < 60; ++step) told += ranks.add(std::vector{1.0, step / 20 == 1 ? 1.0 : 2.0}).has_value();
  EXPECT_EQ(told, 2);
}

TEST(SlowRanks, OthersAreSilence) {
  EXPECT_TRUE(told_of(1, 0, 60).empty()) << "a clean run, whose stages differ";
  EXPECT_TRUE(told_of(1.25, 0, 60).empty()) << "a little longer";
  EXPECT_TRUE(told_of(20, 30, 34).empty()) << "for four steps";
  EXPECT_TRUE(told_of(2.5, 0, 60, 1e-3).empty()) << "milliseconds";
  SlowRanks alone(1);
  for (int step = 0; step < 60; ++step) EXPECT_FALSE(alone.add(std::vector{1.0}).has_value());
}

TEST(SlowRanks, PassesAreWithoutWhatIsExchanged) {
  const auto event = [](Opcode op, double seconds) {
    TraceEvent e;
    e.op = op, e.duration_s = seconds;
    return e;
  };
  EXPECT_EQ(pass_seconds(std::vector{event(Opcode::forward, 1), event(Opcode::recompute, 2),
                                     event(Opcode::backward_input, 4), event(Opcode::backward_weight, 8),
                                     event(Opcode::reduce, 16), event(Opcode::gather, 32), event(Opcode::recv, 64)}),
            15);
}

}  // namespace
}  // namespace tern
