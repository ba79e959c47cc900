// What guesses may lose is bounded by the clock, whatever forecasts say.
#include "infer/speculate/guess_account.h"

#include <gtest/gtest.h>

#include "infer/speculate/guess_worlds_testing.h"

namespace tern {
namespace {

constexpr int64_t kTexts = 8;
constexpr double kPlain = 0.01;  // seconds of a step

GuessAccount opened() {
  GuessAccount account;
  for (int64_t i = 0; i < GuessAccount::kFirstPlain; ++i) {
    EXPECT_FALSE(account.is_open());
    account.earn(1), account.charge(-1);
    EXPECT_EQ(account.left_s(), 0) << "nothing is earned or won before steps are known";
    account.observe_plain(kTexts, kPlain);
  }
  EXPECT_TRUE(account.is_open());
  return account;
}

TEST(GuessAccount, SpendsAShareOfTheTimeAndSavesLittle) {
  GuessAccount account = opened();
  EXPECT_NEAR(account.left_s(), GuessAccount::kAtFirst * kPlain, 1e-12);
  EXPECT_NEAR(account.plain_s(kTexts), kPlain, 1e-12);
  account.observe_guessed(kTexts, kTexts, 3 * kPlain);  // no guess was right
  EXPECT_NEAR(account.left_s(), 0, 1e-12);
  EXPECT_FALSE(account.can_pay(0.1 * kPlain));
  account.earn(100 * kPlain);
  EXPECT_NEAR(account.left_s(), 100 * GuessAccount::kShare * kPlain, 1e-12);
  account.earn(1e6);
  EXPECT_NEAR(account.left_s(), GuessAccount::kMostSaved * kPlain, 1e-12);
  account.observe_guessed(kTexts, 3 * kTexts, kPlain);  // two steps were won
  EXPECT_NEAR(account.left_s(), GuessAccount::kMostSaved * kPlain, 1e-12);
  account.observe_guessed(kTexts, 3 * kTexts, 4 * kPlain);  // one was lost, and one won
  account.observe_guessed(kTexts, 3 * kTexts, 2 * kPlain);
  EXPECT_NEAR(account.left_s(), GuessAccount::kMostSaved * kPlain, 1e-12);
}

TEST(GuessAccount, WhatIsWantedIsSavedForOutOfTheShareAlone) {
  GuessAccount account = opened();
  account.save_for(20 * kPlain);
  for (int i = 0; i < 100; ++i) account.observe_guessed(kTexts, 3 * kTexts, kPlain);
  EXPECT_NEAR(account.left_s(), GuessAccount::kMostSaved * kPlain, 1e-9);
  account.earn(1e6);
  EXPECT_TRUE(account.can_pay(20 * kPlain));
  EXPECT_NEAR(account.left_s(), 20 * kPlain, 1e-9);
  account.save_for(0);
  account.observe_guessed(kTexts, kTexts, 3 * kPlain);
  EXPECT_NEAR(account.left_s(), 18 * kPlain, 1e-9) << "what is there stays";
}

TEST(GuessAccount, StepsWithoutGuessesAreSeenNowAndThenAndTheirMeanIsWhatCounts) {
  GuessAccount account = opened();
  for (int64_t i = 0; i < GuessAccount::kPlainEvery; ++i) {
    EXPECT_FALSE(account.wants_plain()) << i;
    account.observe_guessed(kTexts, 2 * kTexts, kPlain);
  }
  EXPECT_TRUE(account.wants_plain());
  account.observe_plain(kTexts, kPlain);
  EXPECT_FALSE(account.wants_plain());
  for (int i = 0; i < 2000; ++i) account.observe_plain(kTexts, i % 10 == 3 ? 5 * kPlain : kPlain);
  EXPECT_NEAR(account.plain_s(kTexts), 1.1 * kPlain, 0.05 * kPlain) << "some steps are held up";
}

// Sixteen texts of 400 tokens from the first step on. What a guess takes is said to be half or twice what it is, rows of guesses cost as
// much as those of prompts or twice that, a draft leaves caches cold or does not, and its guesses are right or wrong, or in turns. Of these
// 32 worlds the first and every so many-th after it.
void expect_not_slower_than_none(size_t every) {
  constexpr int64_t kBatch = 16, kSteps = 400;
  std::vector<GuessWorld> worlds;
  for (const double row_s : {0.05e-3, 0.45e-3})
    for (const auto& [guess_s, guess_row_s] : {std::pair(0.1e-3, 0.005e-3), std::pair(1.5e-3, row_s)})
      for (const double said : {0.5, 2.0})
        for (const double logits : {1.0, 2.0})
          for (const double cold : {0.0, 0.3})
            worlds.push_back({.step_s = 1.5e-3,
                              .row_s = row_s,
                              .guess_s = guess_s,
                              .guess_row_s = guess_row_s,
                              .prompt = 130,
                              .said = said,
                              .logits = logits,
                              .cold = cold});
  double worst = 10;
  for (size_t i = 0; i < worlds.size(); i += every) {
    GuessWorld& world = worlds[i];
    const double plain = speed(world, kBatch, {.most_tokens = 0}, kSteps);
    for (const auto& [right, turn] : {std::pair(0.0, 0), std::pair(0.9, 0), std::pair(0.9, 100)}) {
      world.right.fill(right), world.turn = turn;
      const double beside = speed(world, kBatch, {.most_tokens = 16}, kSteps) / plain;
      worst = std::min(worst, beside);
      EXPECT_GT(beside, 0.97) << "a row of " << world.row_s << " s; a guess of " << world.guess_s
                              << " s, said to be times " << world.said << "; logits " << world.logits << ", cold "
                              << world.cold << ", right " << right << ", turned behind " << turn;
    }
  }
  std::printf("beside none at least %.3f\n", worst);
}
// Each of the five choices is made both ways among every fifth.
TEST(GuessAccount, WhateverForecastsSayGuessesAreNotSlowerThanNone) { expect_not_slower_than_none(5); }
TEST(GuessAccountSlow, WhateverForecastsSayGuessesAreNotSlowerThanNone) { expect_not_slower_than_none(1); }

// Where guesses pay, the texts that are read first pay for the others.
TEST(GuessAccount, WhatGuessesWinPaysForMoreOfThem) {
  GuessWorld world{.step_s = 1.5e-3, .row_s = 0.05e-3, .guess_s = 0.1e-3, .guess_row_s = 0.005e-3, .prompt = 130};
  world.right.fill(0.9);
  for (const auto& [length, least] : {std::pair(0, 1.2), std::pair(200, 1.1)}) {
    world.length = length;
    const double plain = speed(world, 16, {.most_tokens = 0}, 3000);
    EXPECT_GT(speed(world, 16, {.most_tokens = 16}, 3000) / plain, least) << "texts of " << length;
  }
}

}  // namespace
}  // namespace tern
