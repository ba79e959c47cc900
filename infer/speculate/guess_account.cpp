#include "infer/speculate/guess_account.h"

#include <algorithm>

namespace tern {
namespace {

constexpr int64_t kCold = 2;        // first steps of all, which say nothing
constexpr double kKeepHeld = 0.98;  // weight of the step before

}  // namespace

void GuessAccount::observe_plain(int64_t decoding, double seconds) {
  decoding_ = decoding, since_plain_ = 0;
  if (++num_plain_ <= kCold) return;
  // Some steps are held up, with guesses and without: a typical step is shorter than a mean one.
  if (const double typical = plain_.estimate(decoding); plain_.knows(decoding) && typical > 0) {
    held_ = kKeepHeld * held_ + std::min(seconds / typical, kLongestHeld);
    typical_ = kKeepHeld * typical_ + 1;
  }
  plain_.observe(decoding, seconds);
  if (num_plain_ == kFirstPlain) left_s_ = kAtFirst * plain_s(decoding);
}

double GuessAccount::plain_s(int64_t decoding) const { return plain_.estimate(decoding) * held_ / typical_; }

void GuessAccount::observe_guessed(int64_t decoding, int64_t tokens, double seconds) {
  decoding_ = decoding, ++since_plain_;
  charge(seconds - plain_s(decoding) * static_cast<double>(tokens) / static_cast<double>(decoding));
}

void GuessAccount::charge(double lost_s) {
  if (is_open()) add(-lost_s, kMostSaved * plain_s(decoding_));
}

void GuessAccount::earn(double seconds) {
  if (is_open()) add(kShare * seconds, std::max(kMostSaved * plain_s(decoding_), wanted_s_));
}

// What is there stays, also where it is more.
void GuessAccount::add(double seconds, double most_s) {
  left_s_ = std::min(left_s_ + seconds, std::max(left_s_, most_s));
}

}  // namespace tern
