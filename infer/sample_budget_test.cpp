#include "infer/sample_budget.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tern {
namespace {

// Counted sample by sample on a grid.
TEST(SampleBudget, IsWhatCountingFinds) {
  for (const double right : {0.001, 0.02, 0.1, 0.3, 0.5, 0.77, 0.99})
    for (const double ceiling : {0.05, 0.6, 1.0})
      for (const double gain : {1e-6, 1e-4, 0.003, 0.01, 0.05, 0.2}) {
        const SampleOdds odds{right, ceiling};
        int64_t want = 1;
        double missed = 1 - right;  // by all of them
        while (ceiling * missed * right >= gain) ++want, missed *= 1 - right;
        // Where a gain is the least one but for rounding, one sample more or less is as right.
        const double at_edge = ceiling * missed / (1 - right) * right / gain;
        const int64_t got = samples_worth_their_time(odds, gain);
        if (std::abs(at_edge - 1) > 1e-9) { EXPECT_EQ(got, want) << right << " " << ceiling << " " << gain; }
        EXPECT_NEAR(chance_of_a_right_one(odds, want), ceiling * (1 - missed), 1e-9);
      }
}

TEST(SampleBudget, OneWhereNothingIsWon) {
  EXPECT_EQ(samples_worth_their_time({.right = 0.01}, 0.5), 1);
  EXPECT_EQ(samples_worth_their_time({.right = 0.999999}, 0.01), 1);
  EXPECT_NEAR(chance_of_a_right_one({.right = 0.3, .ceiling = 0.5}, 1), 0.15, 1e-15);
  EXPECT_NEAR(chance_of_a_right_one({.right = 1e-12}, 1), 1e-12, 1e-20) << "no digits are lost where p is small";
}

}  // namespace
}  // namespace tern
