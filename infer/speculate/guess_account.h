#pragma once
// What guesses may lose. Forecasts of what guesses cost and win can be wrong in ways that nobody thought of (cold caches behind
// a draft, rows that cost more with logits than without), so they only propose. What was lost or won is read off the clock,
// and guesses lose no more than a fixed share of the time. It is a bandit with two arms, guesses and none, in which the losing
// arm is paid for in advance.

#include "infer/speculate/step_times.h"

namespace tern {

/// An account of seconds: by how much guesses may still cost more than they win. A share of all time is paid in. If a step
/// with guesses took longer than its tokens take without, the difference is paid out; if it took less, paid in. Little is saved up, so that gains of
/// one kind of text are not lost on the next. The time of steps without guesses is measured again now and then (wants_plain).
class GuessAccount {
 public:
  /// Takes the time of a step of `decoding` texts without guesses that does not follow a step with guesses.
  void observe_plain(int64_t decoding, double seconds);
  /// Takes the time of a step with guesses, or right after one, that drew `tokens` tokens. `seconds`: with guessing and drawing.
  void observe_guessed(int64_t decoding, int64_t tokens, double seconds);
  /// For a step that read prompts too: how much longer it took than without guesses. Negative: guesses won.
  void charge(double lost_s);
  /// Time has passed: a share of it may be lost.
  void earn(double seconds);
  /// Whether enough steps without guesses were seen to judge those with guesses.
  bool is_open() const { return num_plain_ >= kFirstPlain; }
  /// Whether the next step should compute no guesses, so that the time of a step without them is known.
  bool wants_plain() const { return since_plain_ >= kPlainEvery; }
  /// Whether so much may be lost.
  bool can_pay(double lost_s) const { return lost_s <= left_s_; }
  /// Lets `earn` fill the account up to `lost_s`, where that is more than usual; gains fill it as usual. 0: as usual.
  void save_for(double lost_s) { wanted_s_ = lost_s; }
  double left_s() const { return left_s_; }
  /// The mean seconds of a step of `decoding` texts without guesses; 0: none was seen.
  double plain_s(int64_t decoding) const;

  static constexpr int64_t kFirstPlain = 4, kPlainEvery = 32;  // steps
  static constexpr double kShare = 0.012;                      // of all time
  static constexpr double kAtFirst = 2, kMostSaved = 6;        // held at first and when full, in steps without guesses
  static constexpr double kLongestHeld = 2;                    // a held-up step counts as at most so many typical ones

 private:
  void add(double seconds, double most_s);

  StepTimes plain_{StepTimes::kLongMemory};  // by texts; typical ones
  double held_ = 20, typical_ = 20;          // recent steps, fading: Σ seconds / typical seconds, and their number
  double left_s_ = 0, wanted_s_ = 0;
  int64_t num_plain_ = 0, since_plain_ = 0, decoding_ = 0;
};

}  // namespace tern
