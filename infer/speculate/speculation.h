#pragma once
// How many guessed tokens a step computes behind the ends of its sequences: the number that gives the most tokens a second,
// by measured times of steps and measured acceptance; none where none pays. The aim is Nightjar's: never slower than
// without. In place of its bandit over lengths, the acceptance of every guess is known, as guesses that are not computed
// are compared with the drawn tokens too. That is a forecast: how much may be lost where it is wrong, an account bounds by the clock
// alone (guess_account.h). None of it has a part in which token is drawn.

#include <optional>

#include "base/clock.h"
#include "infer/speculate/guess_account.h"
#include "infer/speculate/proposer.h"
#include "infer/speculate/step_times.h"

#include <unordered_map>

namespace tern {

struct SpeculationSettings {
  Proposer* proposer = nullptr;  // null: none. It must outlive the engine
  int64_t most_tokens = 16;      // of a sequence in a step
  int64_t budget = 64;           // of all sequences in a step (guess_budget)
  bool measured = true;          // false: all that is guessed, whatever it costs
  /// Drawn guesses are taken by rejection sampling (accept_or_draw): more of them, and texts are as likely as without, but not
  /// the same ones. How many guesses are computed then depends on none of them, as that would make some texts likelier.
  bool fast = false;
};

/// So far. Seconds are of steps that only decoded, with guessing and drawing.
struct SpeculationFigures {
  int64_t guessed = 0, accepted = 0;      // tokens computed behind ends; of them, those that were drawn
  int64_t steps = 0, with_guesses = 0;    // that only decoded; of them, those with guesses
  int64_t tokens = 0;                     // drawn in them
  double seconds = 0, plain_seconds = 0;  // of these steps; what their tokens would have taken without guesses
  double acceptance() const { return guessed > 0 ? static_cast<double>(accepted) / static_cast<double>(guessed) : 0; }
  double speed_up() const { return seconds > 0 && plain_seconds > 0 ? plain_seconds / seconds : 1; }
};

class Speculation {
 public:
  Speculation(const SpeculationSettings&, const Clock&);
  /// The guesses to compute for each ask, in a step in which `decoding` sequences draw.
  std::vector<std::vector<int32_t>> propose(std::span<const ProposalAsk>, int64_t decoding);
  /// What the k-th guess of a sequence was drawn from, where it is to be taken by rejection sampling; else null.
  const Odds* odds(uint64_t sequence, size_t k) const;
  /// The tokens that a sequence drew, beginning at the place of its first guess; `computed` guesses were in the batch.
  void drawn(uint64_t sequence, std::span<const int32_t> tokens, int64_t computed);
  /// A step that only decoded.
  void observe(int64_t decoding, int64_t rows, int64_t tokens, double compute_s, double draw_s);
  /// A step that read prompts too: `rows` tokens in all, of which `guessed` guesses of `decoding` texts, `accepted` of them drawn.
  void observe_prompts(int64_t rows, double compute_s, int64_t decoding = 0, int64_t guessed = 0, int64_t accepted = 0);
  void forget(uint64_t sequence);
  const SpeculationFigures& figures() const { return figures_; }

 private:
  static constexpr double kMargin = 1.03;    // times are uncertain: a gain must be worth it
  static constexpr double kSureShare = 0.5;  // of a gain that is foretold; what is lost without the rest is paid for
  /// Acceptance of recent guesses; older ones count less.
  struct Rates {
    std::array<double, kGuessClasses> tried{}, right{};
    void add(uint8_t kind, bool is_right, double keep);
  };
  struct Text {
    Rates rates;
    std::vector<Guess> guesses;  // of this step
    int64_t generated = 0;       // tokens, when it was about to draw last
  };
  // What a step asks for.
  struct Plan {
    std::vector<size_t> of;  // places among the asks
    int64_t most = 0;        // guesses of each; 0: nothing is asked for
  };
  // Guesses of a given number for each of some texts.
  struct Forecast {
    int64_t most = 0;    // what makes the most tokens a second; 0: none
    double saved_s = 0;  // of a step, without what has to be read first
    double worth_s = 0;  // what the tokens that were guessed take without guesses
    double tokens = 0;   // of the step
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
  StepTimes times_;                                  // of those that only decoded, without drawing
  StepTimes lasting_times_{StepTimes::kLongMemory};  // of all: what rows cost that decoding alone has not had of late
  std::optional<double> draw_s_;                     // seconds to draw one token
  std::optional<double> length_;                     // tokens that a text is usually of when it ends
  Rates rates_;                                      // of all texts
  std::unordered_map<uint64_t, Text> texts_;
  int64_t wait_ = 0, next_wait_ = 1;  // steps until a proposer that costs time is tried again
  GuessAccount account_;
  double guessing_s_ = 0;       // of this step
  bool asked_ = false;          // in this step, a proposer that takes time
  bool behind_asked_ = false;   // the step before was such a one: what it left in caches is gone
  bool behind_prompt_ = false;  // the step before read prompts
  SpeculationFigures figures_;
};

/// Rows that guesses may add to a batch of so many sequences: memory is laid out for them.
int64_t guess_budget(int64_t sequences, int64_t most_tokens);

}  // namespace tern
