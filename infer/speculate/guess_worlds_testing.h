#pragma once
// Tests only: texts that are guessed, in virtual time with known costs and known acceptance.

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <random>
#include <vector>

#include "base/clock.h"
#include "infer/speculate/speculation.h"

namespace tern {

inline constexpr int64_t kMostTokens = 1000;  // that a text may get; when it ends nobody knows

struct GuessWorld {
  double step_s = 1e-3, row_s = 0.1e-3, jump_s = 0;  // of a step; of each row; once more if there are over 8 rows
  double guess_s = 0, guess_row_s = 0;               // of a pass that guesses; of each token in it
  int64_t prompt = 1;                                // tokens of a text before the first guess
  int64_t length = 0;                                // tokens that a text is of; 0: it does not end
  std::array<double, kGuessClasses> right{};         // chance of a guess, by its kind
  // What no forecast knows of.
  double said = 1;    // the time that the proposer says a guessing pass takes, over what it takes
  double logits = 1;  // the time of a guess's row over that of a prompt's row
  double cold = 0;    // share that a step takes longer where a proposer that costs time was asked in it or before it
  int64_t turn = 0;   // every so many tokens of a text, the chances change from right to 1 − right, or back; 0: never
  double seconds(int64_t rows) const { return step_s + row_s * static_cast<double>(rows) + (rows > 8 ? jump_s : 0); }
  double chance(const ProposalAsk& ask, uint8_t kind) const {
    return turn > 0 && ask.num_generated / turn % 2 == 1 ? 1 - right[kind] : right[kind];
  }
};

// Guesses of random kinds, right as often as the world says: a right guess is token 1, others are 0. A text's tokens are read before
// the first guess, those that it got since before the others; what that takes is learned as a draft model learns it.
class WorldsGuesses : public Proposer {
 public:
  WorldsGuesses(const GuessWorld& world, VirtualClock& clock) : world_(world), clock_(clock) {}
  std::vector<std::vector<Guess>> propose(std::span<const ProposalAsk> asks) override {
    std::vector<std::vector<Guess>> all(asks.size());
    int64_t most = 0, rows = 0;
    for (size_t i = 0; i < asks.size(); ++i) {
      const auto kind = static_cast<uint8_t>(random_() % kGuessClasses);
      most = std::max(most, asks[i].most), rows += unread(asks[i]);
      read_[asks[i].sequence] = asks[i].num_generated;
      for (int64_t k = 0; k < asks[i].most; ++k)
        all[i].push_back(
            {std::uniform_real_distribution<double>()(random_) < world_.chance(asks[i], kind) ? 1 : 0, kind});
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
  double compute_s(int64_t tokens) const override { return world_.said * times_.estimate(tokens); }

 private:
  const GuessWorld& world_;
  VirtualClock& clock_;
  std::mt19937 random_{5};
  std::map<uint64_t, int64_t> read_;  // tokens that were generated when it was asked for last
  StepTimes times_{StepTimes::kLongMemory};
};

// Tokens a second of `batch` texts over so many steps, from where their prompts are read; every 50th step is held up. Texts that end are
// followed by others, whose prompts are read in a step of their own.
inline double speed(const GuessWorld& world, int64_t batch, const SpeculationSettings& settings, int64_t steps) {
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
  bool was_asked = false;
  if (world.prompt > 1) {
    const int64_t chunk = std::min<int64_t>(batch * world.prompt, 512);
    speculation.observe_prompts(chunk, world.seconds(chunk));
  }
  for (int64_t step = 0; step < steps; ++step) {
    const int64_t begin_ns = clock.now_ns();
    const auto chosen =
        s.most_tokens > 0 ? speculation.propose(asks, batch) : std::vector<std::vector<int32_t>>(asks.size());
    seconds += seconds_between(begin_ns, clock.now_ns());
    const bool asked = clock.now_ns() > begin_ns;
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
    double took = world.seconds(rows) + (world.logits - 1) * world.row_s * static_cast<double>(rows - batch);
    took *= noise(random) * (step % 50 == 7 ? 4 : 1) * (asked || was_asked ? 1 + world.cold : 1);
    was_asked = asked;
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

}  // namespace tern
