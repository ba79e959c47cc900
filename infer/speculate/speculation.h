#pragma once
// Decides how many guessed tokens a step computes behind the ends of its sequences: the number that gives the most tokens a second, by the
// measured times of steps and the measured acceptance, and none if none would pay. The aim is Nightjar's: never slower than without guesses.
// Nightjar tries lengths by a bandit; here the acceptance of every guess so far is known, as guesses that were not computed are compared with
// the drawn tokens too. Both measures forecast the next step. An account bounds, by the clock alone, what a wrong forecast may lose
// (guess_account.h).
// No drawn token depends on this, except with SpeculationSettings::fast, which also compares only guesses that were computed.

#include <optional>

#include "base/clock.h"
#include "infer/speculate/guess_account.h"
#include "infer/speculate/proposer.h"
#include "infer/speculate/step_times.h"

#include <unordered_map>

namespace tern {

struct SpeculationSettings {
  Proposer* proposer = nullptr;  // null: there are no guesses. It must outlive the engine
  int64_t most_tokens = 16;      // the most guesses of a sequence in a step
  int64_t budget = 64;           // the most guesses of all sequences in a step (guess_budget)
  bool measured = true;          // false: everything that is guessed is computed, whatever it costs
  /// Rejection sampling (accept_or_draw) takes drawn guesses. More guesses are accepted, and each text is as probable as without guesses, but the
  /// same seed gives other texts. The number of guesses that are computed then does not depend on the guesses: if it did, some texts would be
  /// more probable.
  bool fast = false;
};

/// What happened so far. "Steps" are steps that only decoded; their seconds include guessing and drawing.
struct SpeculationFigures {
  int64_t guessed = 0, accepted = 0;    // guesses that were computed; the part of them that was accepted
  int64_t steps = 0, with_guesses = 0;  // steps; the part of them that had guesses
  int64_t tokens = 0;                   // drawn in these steps
  // The seconds of these steps, and an estimate of what their tokens would have taken without guesses.
  double seconds = 0, plain_seconds = 0;
  double acceptance() const { return guessed > 0 ? static_cast<double>(accepted) / static_cast<double>(guessed) : 0; }
  double speed_up() const { return seconds > 0 && plain_seconds > 0 ? plain_seconds / seconds : 1; }
};

/// The guesses of an engine.
class Speculation {
 public:
  Speculation(const SpeculationSettings&, const Clock&);
  /// The guesses to compute for each ask, in a step in which `decoding` sequences draw.
  std::vector<std::vector<int32_t>> propose(std::span<const ProposalAsk>, int64_t decoding);
  /// The odds of the k-th guess of a sequence, if rejection sampling is to take it; else null.
  const Odds* odds(uint64_t sequence, size_t k) const;
  /// Tells the tokens that a sequence drew, from the place of its first guess on. `computed`: how many of its guesses were in the batch.
  void drawn(uint64_t sequence, std::span<const int32_t> tokens, int64_t computed);
  /// Tells the times of a step that only decoded: `decoding` sequences, `rows` computed tokens, `tokens` drawn.
  void observe(int64_t decoding, int64_t rows, int64_t tokens, double compute_s, double draw_s);
  /// Tells the time of a step with prompts: `rows` tokens, among them `guessed` guesses for `decoding` texts, `accepted` drawn.
  void observe_prompts(int64_t rows, double compute_s, int64_t decoding = 0, int64_t guessed = 0, int64_t accepted = 0);
  /// Forgets a sequence that has ended.
  void forget(uint64_t sequence);
  const SpeculationFigures& figures() const { return figures_; }

 private:
  static constexpr double kMargin = 1.03;    // the least forecast gain in speed, as times are uncertain
  static constexpr double kSureShare = 0.5;  // the account covers the loss if only this share of forecast tokens comes
  /// Acceptance of recent guesses; older ones count less.
  struct Rates {
    std::array<double, kGuessClasses> tried{}, right{};
    void add(uint8_t kind, bool is_right, double keep);
  };
  struct Text {
    Rates rates;
    std::vector<Guess> guesses;  // of this step
    int64_t generated = 0;       // tokens that it had generated when it last was about to draw
  };
  // What a step asks the proposer for.
  struct Plan {
    std::vector<size_t> of;  // indices of the asks that are passed on
    int64_t most = 0;        // guesses of each; 0: nothing is asked for
  };
  // What guesses are expected to be worth.
  struct Forecast {
    int64_t most = 0;    // the number of guesses of each text that gives the most tokens a second; 0: no guesses
    double saved_s = 0;  // seconds that a step saves, not counting the time in which texts must be read first
    double worth_s = 0;  // seconds that the tokens which guesses are expected to win would take without guesses
    double tokens = 0;   // that the step is expected to draw
  };
  Plan plan(std::span<const ProposalAsk>, int64_t decoding);
  bool may_ask() const;
  Plan trial(std::span<const ProposalAsk>, std::span<const int64_t> unread, int64_t decoding);
  bool pay(Plan&, std::span<const int64_t> unread, int64_t decoding, double acceptance);
  Forecast forecast(int64_t decoding, int64_t asked, double acceptance) const;
  void drop_those_not_worth_reading(Plan&, std::span<const ProposalAsk>, std::span<const int64_t> unread,
                                    int64_t decoding, const Forecast&) const;
  double left(const ProposalAsk&) const;
  double step_s(int64_t rows) const;
  double acceptance(double* seen = nullptr) const;
  double rate(const Text&, uint8_t kind) const;
  std::vector<int64_t> lengths(std::span<const ProposalAsk>, int64_t decoding);
  std::vector<int64_t> fixed_lengths(std::span<const ProposalAsk>) const;

  SpeculationSettings settings_;
  const Clock& clock_;
  StepTimes times_;  // of steps that only decoded, without drawing
  // Of all steps, also those that read prompts; used where times_ has seen no step of so many rows lately.
  StepTimes lasting_times_{StepTimes::kLongMemory};
  std::optional<double> draw_s_;  // seconds to draw one token
  std::optional<double> length_;  // the usual number of a text's tokens when it ends
  Rates rates_;                   // of all texts
  std::unordered_map<uint64_t, Text> texts_;
  int64_t wait_ = 0, next_wait_ = 1;  // steps until a proposer that costs time is tried again
  GuessAccount account_;
  double guessing_s_ = 0;       // of this step
  bool asked_ = false;          // this step asked a proposer that costs time
  bool behind_asked_ = false;   // the step before asked one, which displaced what lay in caches: this step is slow
  bool behind_prompt_ = false;  // the step before read prompts
  SpeculationFigures figures_;
};

/// The number of rows that guesses may add to a batch of `sequences` sequences. Memory is predicted with them.
int64_t guess_budget(int64_t sequences, int64_t most_tokens);

}  // namespace tern
