// How many guesses a step computes, in virtual time with known costs and known acceptance.
#include <gtest/gtest.h>

#include "infer/speculate/guess_worlds_testing.h"

namespace tern {
namespace {

// Costs, chances and numbers of texts, 72 of them; of these the first and every so many-th after it.
void expect_near_the_best(size_t every) {
  const std::array<double, kGuessClasses> none{}, rare{0, 0.05, 0.05, 0.1, 0.1, 0.1, 0.2, 0.2},
      mixed{0, 0.1, 0.2, 0.4, 0.6, 0.8, 0.9, 0.97}, sure{0.9, 0.9, 0.95, 0.95, 0.97, 0.97, 0.99, 0.99};
  const GuessWorld costs[] = {{.row_s = 0.02e-3},                  // rows next to nothing
                              {.row_s = 0.1e-3},                   //
                              {.row_s = 0.05e-3, .jump_s = 1e-3},  // a step between 8 and 9 rows
                              {.step_s = 0, .row_s = 1e-3},        // each row as long as the first: nothing can be won
                              {.row_s = 0.1e-3, .guess_s = 0.1e-3},  // a guess takes a tenth of a step
                              {.row_s = 0.1e-3, .guess_s = 1e-3}};   // as long as a step
  double worst = 10, nearest = 10;
  size_t cell = 0;
  for (GuessWorld world : costs)
    for (const auto& right : {none, rare, mixed, sure})
      for (const int64_t batch : {1, 4, 16}) {
        if (cell++ % every != 0) continue;
        world.right = right;
        const int64_t steps = 4000;
        const double plain = speed(world, batch, {.most_tokens = 0}, steps);
        const double got = speed(world, batch, {.most_tokens = 8}, steps);
        double best = plain;
        for (const int64_t fixed : {1, 2, 4, 8})
          best = std::max(best, speed(world, batch, {.most_tokens = fixed, .measured = false}, steps / 4));
        worst = std::min(worst, got / plain);
        nearest = std::min(nearest, got / best);
        EXPECT_GT(got / plain, 0.97) << "step " << world.step_s << ", row " << world.row_s << ", guess "
                                     << world.guess_s << ", right " << right[4] << ", batch " << batch;
        EXPECT_GT(got / best, 0.9) << "step " << world.step_s << ", row " << world.row_s << ", guess " << world.guess_s
                                   << ", right " << right[4] << ", batch " << batch;
      }
  std::printf("least speed beside none %.3f, beside the best fixed number of guesses %.3f\n", worst, nearest);
}
// Each of the costs, of the chances and of the numbers of texts is among every seventh.
TEST(SpeculationLength, IsNeverMuchSlowerThanNoneAndNearTheBestFixedOne) { expect_near_the_best(7); }
TEST(SpeculationLengthSlow, IsNeverMuchSlowerThanNoneAndNearTheBestFixedOne) { expect_near_the_best(1); }

// A draft model has to read a text before its first guess: where its guesses are worth nothing it reads one text, not all, and where they
// are worth much it reads all, or as many of sixteen as may be paid for before the others have grown.
void expect_few_texts_are_read_first(std::initializer_list<int64_t> batches) {
  GuessWorld world{.row_s = 0.1e-3, .guess_s = 0.1e-3, .guess_row_s = 0.002e-3, .prompt = 2500};
  for (const int64_t batch : batches) {
    const int64_t steps = 2000;
    world.right = {};
    const double plain = speed(world, batch, {.most_tokens = 0}, steps);
    EXPECT_GT(speed(world, batch, {.most_tokens = 8}, steps) / plain, 0.97) << batch;
    world.right = {0.9, 0.9, 0.95, 0.95, 0.97, 0.97, 0.99, 0.99};
    EXPECT_GT(speed(world, batch, {.most_tokens = 8}, 10 * steps) / plain, batch < 16 ? 1.2 : 1.03) << batch;
  }
}
TEST(SpeculationLength, WhatATextCostsToReadIsNotPaidForAllBeforeGuessesAreKnownToPay) {
  expect_few_texts_are_read_first({1, 4});
}
TEST(SpeculationLengthSlow, WhatATextCostsToReadIsNotPaidForAllBeforeGuessesAreKnownToPay) {
  expect_few_texts_are_read_first({1, 4, 16});
}

// A draft as large as its model, of texts that end: its guesses are nearly all right, and one for one text may pay, but one for each of many
// takes as long as the step it saves, and each new text has to be read first.
void expect_a_large_draft_is_not_slower(size_t every) {
  double worst = 10;
  size_t cell = 0;
  for (const double guess_row_s : {0.1e-3, 0.3e-3, 0.45e-3})
    for (const int64_t length : {30, 100, 400})
      for (const int64_t batch : {1, 4, 16, 64}) {
        if (cell++ % every != 0) continue;
        GuessWorld world{
            .step_s = 1.5e-3, .row_s = 0.45e-3, .guess_s = 1e-3, .guess_row_s = guess_row_s, .prompt = 130};
        world.length = length;
        world.right.fill(0.9);
        const int64_t steps = 6000;
        const double plain = speed(world, batch, {.most_tokens = 0}, steps);
        const double beside = speed(world, batch, {.most_tokens = 16}, steps) / plain;
        worst = std::min(worst, beside);
        EXPECT_GT(beside, 0.97) << "a guessed row of " << guess_row_s << ", texts of " << length << ", batch " << batch;
      }
  std::printf("least speed beside none %.3f\n", worst);
}
// Of 36 cells every fifth: each cost, length and number of texts is among them.
TEST(SpeculationLength, ADraftAsLargeAsItsModelIsNotSlowerThanNoneWhateverTheNumberOfTextsAndTheirLength) {
  expect_a_large_draft_is_not_slower(5);
}
TEST(SpeculationLengthSlow, ADraftAsLargeAsItsModelIsNotSlowerThanNoneWhateverTheNumberOfTextsAndTheirLength) {
  expect_a_large_draft_is_not_slower(1);
}

TEST(SpeculationLength, TimesBetweenThoseSeenAreTakenFromBoth) {
  StepTimes times;
  EXPECT_FALSE(times.knows(4));
  EXPECT_EQ(times.estimate(4), 0);
  times.observe(4, 1.0);
  EXPECT_TRUE(times.knows(4) && times.knows(5) && !times.knows(8));
  EXPECT_DOUBLE_EQ(times.estimate(4), 1.0);
  EXPECT_GT(times.estimate(40), 1.0);
  times.observe(8, 3.0);
  EXPECT_DOUBLE_EQ(times.estimate(6), 2.0);
  times.observe(8, 300.0);  // held up
  EXPECT_LT(times.estimate(8), 3.2);
  for (int i = 0; i < StepTimes::kMemory + 1; ++i) times.observe(4, 1.0);
  EXPECT_FALSE(times.knows(8));
  for (int64_t rows = 1; rows < 5000; ++rows) times.observe(rows, 1e-3 * static_cast<double>(rows));
  EXPECT_NEAR(times.estimate(4990), 4.99, 0.8);
}

}  // namespace
}  // namespace tern
