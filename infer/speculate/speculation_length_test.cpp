// How many guesses a step computes, in virtual time with known costs and known acceptance.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>

#include "infer/speculate/speculation.h"

namespace tern {
namespace {

constexpr int64_t kMostTokens = 1000;  // that a text may get; when it ends nobody knows

struct World {
  double step_s = 1e-3, row_s = 0.1e-3, jump_s = 0;  // of a step; of each row; beyond 8 rows once more
  double guess_s = 0, guess_row_s = 0;               // of a pass that guesses; of each token in it
  int64_t prompt = 1;                                // tokens of a text before the first guess
  int64_t length = 0;                                // tokens that a text is of; 0: it does not end
  std::array<double, kGuessClasses> right{};         // chance of a guess, by its kind
  double seconds(int64_t rows) const { return step_s + row_s * static_cast<double>(rows) + (rows > 8 ? jump_s : 0); }
};

// Guesses of random kinds, right as often as the world says: a right guess is token 1, others are 0. A text's tokens are read before
// the first guess, those that it got since before the others; what that takes is learned as a draft model learns it.
class WorldsGuesses : public Proposer {
 public:
  WorldsGuesses(const World& world, VirtualClock& clock) : world_(world), clock_(clock) {}
  std::vector<std::vector<Guess>> propose(std::span<const ProposalAsk> asks) override {
    std::vector<std::vector<Guess>> all(asks.size());
    int64_t most = 0, rows = 0;
    for (size_t i = 0; i < asks.size(); ++i) {
      const auto kind = static_cast<uint8_t>(random_() % kGuessClasses);
      most = std::max(most, asks[i].most), rows += unread(asks[i]);
      read_[asks[i].sequence] = asks[i].num_generated;
      for (int64_t k = 0; k < asks[i].most; ++k)
        all[i].push_back({std::uniform_real_distribution<double>()(random_) < world_.right[kind] ? 1 : 0, kind});
    }
    for (int64_t k = 0; k < most; ++k, rows = std::ssize(asks)) {
      const double took = world_.guess_s + world_.guess_row_s * static_cast<double>(rows);
      clock_.advance_ns(std::llround(1e9 * took));
      times_.observe(rows, took);
    }
    return all;
  }
  void forget(uint64_t sequence) override { read_.erase(sequence); }
  bool costs_time() const override { return world_.guess_s > 0; }
  int64_t unread(const ProposalAsk& ask) const override {
    const auto found = read_.find(ask.sequence);
    if (found == read_.end()) return world_.prompt + ask.num_generated;
    return std::clamp<int64_t>(ask.num_generated - found->second, 1, 1 + ask.num_generated);
  }
  double compute_s(int64_t tokens) const override { return times_.estimate(tokens); }

 private:
  const World& world_;
  VirtualClock& clock_;
  std::mt19937 random_{5};
  std::map<uint64_t, int64_t> read_;  // tokens that were generated when it was asked for last
  StepTimes times_{StepTimes::kLongMemory};
};

// Tokens a second of `batch` texts over so many steps; every 50th step is held up. Texts that end are followed by others, whose
// prompts are read in a step of their own.
double speed(const World& world, int64_t batch, const SpeculationSettings& settings, int64_t steps) {
  VirtualClock clock;
  WorldsGuesses guesses(world, clock);
  SpeculationSettings s = settings;
  s.proposer = &guesses;
  s.budget = 200;
  Speculation speculation(s, clock);
  std::mt19937 random(3);
  std::lognormal_distribution<double> noise(0, 0.05);
  std::vector<ProposalAsk> asks;
  uint64_t texts = 0;
  for (int64_t i = 0; i < batch; ++i) asks.push_back({.sequence = texts++, .most = kMostTokens});
  double seconds = 0;
  int64_t all = 0;
  for (int64_t step = 0; step < steps; ++step) {
    const int64_t begin_ns = clock.now_ns();
    const auto chosen =
        s.most_tokens > 0 ? speculation.propose(asks, batch) : std::vector<std::vector<int32_t>>(asks.size());
    seconds += seconds_between(begin_ns, clock.now_ns());
    int64_t rows = batch, tokens = 0;
    for (size_t i = 0; i < asks.size(); ++i) {
      std::vector<int32_t> drawn;
      for (const int32_t token : chosen[i])
        if (drawn.push_back(1), token != 1) break;
      if (std::ssize(drawn) == std::ssize(chosen[i]) && (drawn.empty() || chosen[i].back() == 1)) drawn.push_back(1);
      tokens += std::ssize(drawn), rows += std::ssize(chosen[i]);
      asks[i].num_generated += std::ssize(drawn);
      speculation.drawn(asks[i].sequence, drawn, std::ssize(chosen[i]));
    }
    const double took = world.seconds(rows) * noise(random) * (step % 50 == 7 ? 4 : 1);
    speculation.observe(batch, rows, tokens, took, 1e-6 * static_cast<double>(tokens));
    seconds += took + 1e-6 * static_cast<double>(tokens);
    all += tokens;
    int64_t ended = 0;
    for (ProposalAsk& ask : asks) {
      if (world.length == 0 || ask.num_generated < world.length) continue;
      speculation.forget(ask.sequence);
      ask = {.sequence = texts++, .most = kMostTokens}, ++ended;
    }
    if (ended == 0) continue;
    const int64_t prompts = ended * world.prompt + batch - ended;
    const double read_s = world.seconds(prompts) * noise(random);
    speculation.observe_prompts(prompts, read_s);
    seconds += read_s;
  }
  return static_cast<double>(all) / seconds;
}

TEST(SpeculationLength, IsNeverMuchSlowerThanNoneAndNearTheBestFixedOne) {
  const std::array<double, kGuessClasses> none{}, rare{0, 0.05, 0.05, 0.1, 0.1, 0.1, 0.2, 0.2},
      mixed{0, 0.1, 0.2, 0.4, 0.6, 0.8, 0.9, 0.97}, sure{0.9, 0.9, 0.95, 0.95, 0.97, 0.97, 0.99, 0.99};
  const World costs[] = {{.row_s = 0.02e-3},                    // rows next to nothing
                         {.row_s = 0.1e-3},                     //
                         {.row_s = 0.05e-3, .jump_s = 1e-3},    // a step between 8 and 9 rows
                         {.step_s = 0, .row_s = 1e-3},          // each row as long as the first: nothing can be won
                         {.row_s = 0.1e-3, .guess_s = 0.1e-3},  // a guess takes a tenth of a step
                         {.row_s = 0.1e-3, .guess_s = 1e-3}};   // as long as a step
  double worst = 10, nearest = 10;
  for (World world : costs)
    for (const auto& right : {none, rare, mixed, sure})
      for (const int64_t batch : {1, 4, 16}) {
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

// A draft model has to read a text before its first guess: where its guesses are worth nothing it reads one text, not all, and where they
// are worth much it reads all.
TEST(SpeculationLength, WhatATextCostsToReadIsNotPaidForAllBeforeGuessesAreKnownToPay) {
  World world{.row_s = 0.1e-3, .guess_s = 0.1e-3, .guess_row_s = 0.002e-3, .prompt = 25'000};
  for (const int64_t batch : {1, 4, 16}) {
    const int64_t steps = 2000;
    world.right = {};
    const double plain = speed(world, batch, {.most_tokens = 0}, steps);
    EXPECT_GT(speed(world, batch, {.most_tokens = 8}, steps) / plain, 0.97) << batch;
    world.right = {0.9, 0.9, 0.95, 0.95, 0.97, 0.97, 0.99, 0.99};
    EXPECT_GT(speed(world, batch, {.most_tokens = 8}, 10 * steps) / plain, 1.2) << batch;
  }
}

// A draft as large as its model, of texts that end: its guesses are nearly all right, and one for one text may pay, but one for each of many
// takes as long as the step it saves, and each new text has to be read first.
TEST(SpeculationLength, ADraftAsLargeAsItsModelIsNotSlowerThanNoneWhateverTheNumberOfTextsAndTheirLength) {
  double worst = 10;
  for (const double guess_row_s : {0.1e-3, 0.3e-3, 0.45e-3})
    for (const int64_t length : {30, 100, 400})
      for (const int64_t batch : {1, 4, 16, 64}) {
        World world{.step_s = 1.5e-3, .row_s = 0.45e-3, .guess_s = 1e-3, .guess_row_s = guess_row_s, .prompt = 130};
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
