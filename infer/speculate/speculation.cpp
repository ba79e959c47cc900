#include "infer/speculate/speculation.h"

#include <algorithm>

namespace tern {
namespace {

constexpr double kKeepOfText = 0.97, kKeepOfAll = 0.998;  // weight of the guess before
constexpr double kPrior = 4;                              // guesses of all texts that one text begins with
constexpr double kLeast = 0.01;                           // less likely guesses are passed over
constexpr double kMargin = 1.03;                          // times are uncertain: a gain must be worth it
constexpr double kTrialShare = 0.02;                      // of all time, that trials may take
constexpr double kEvidence = 16;                          // guesses seen before all texts are asked for
constexpr int64_t kUsualRows = 64, kLongestWait = 512;

void blend(std::optional<double>& typical, double seen) {
  typical = typical ? *typical + 0.1 * std::clamp(seen - *typical, -*typical, 0.5 * *typical) : seen;
}

}  // namespace

int64_t guess_budget(int64_t sequences, int64_t most_tokens) {
  return std::min(sequences * most_tokens, std::max(most_tokens, kUsualRows));
}

Speculation::Speculation(const SpeculationSettings& settings, const Clock& clock)
    : settings_(settings), clock_(clock) {}

void Speculation::Rates::add(uint8_t kind, bool is_right, double keep) {
  tried[kind] = keep * tried[kind] + 1;
  right[kind] = keep * right[kind] + (is_right ? 1 : 0);
}

// Of one text, leaning on all texts while little was seen of it.
double Speculation::rate(const Text& text, uint8_t kind) const {
  const double of_all = (rates_.right[kind] + 1) / (rates_.tried[kind] + 2);
  return (text.rates.right[kind] + kPrior * of_all) / (text.rates.tried[kind] + kPrior);
}

std::vector<std::vector<int32_t>> Speculation::propose(std::span<const ProposalAsk> asks, int64_t decoding) {
  std::vector<std::vector<int32_t>> chosen(asks.size());
  guessing_s_ = 0, trial_ = false;
  for (const ProposalAsk& ask : asks) texts_[ask.sequence].guesses.clear();
  if (asks.empty()) return chosen;
  const auto asked = static_cast<int64_t>(asks.size());
  int64_t most = depth(decoding, asked);
  if (most == 0) return chosen;
  if (settings_.fast) most = std::min(most, std::max<int64_t>(settings_.budget / asked, 1));
  const std::vector<ProposalAsk> wanted = this->wanted(asks, most);
  const auto is_read = [&](const ProposalAsk& ask) { return texts_.at(ask.sequence).asked; };
  const bool all_read = std::ranges::all_of(wanted, is_read);  // else the time is that of reading, once
  const int64_t begin_ns = clock_.now_ns();
  std::vector<std::vector<Guess>> guesses = settings_.proposer->propose(wanted);
  guessing_s_ = seconds_between(begin_ns, clock_.now_ns());
  if (trial_) trials_s_ += guessing_s_;
  if (all_read || settings_.fast || !settings_.proposer->costs_time())
    blend(guess_s_, guessing_s_ / static_cast<double>(most));
  for (size_t i = 0; i < wanted.size(); ++i) {
    Text& text = texts_[wanted[i].sequence];
    text.guesses = std::move(guesses[i]), text.asked = true;
  }
  const std::vector<int64_t> count = settings_.fast ? fixed_lengths(asks) : lengths(asks, decoding);
  for (size_t i = 0; i < asks.size(); ++i)
    for (int64_t k = 0; k < count[i]; ++k)
      chosen[i].push_back(texts_.at(asks[i].sequence).guesses[static_cast<size_t>(k)].token);
  return chosen;
}

// All texts; of a trial one, which was asked before if there is such a one.
std::vector<ProposalAsk> Speculation::wanted(std::span<const ProposalAsk> asks, int64_t most) const {
  std::vector<ProposalAsk> wanted(asks.begin(), asks.end());
  if (trial_) {
    const auto is_read = [&](const ProposalAsk& ask) { return texts_.at(ask.sequence).asked; };
    const auto read = std::ranges::find_if(asks, is_read);
    wanted = {read != asks.end() ? *read : asks.front()};
  }
  for (ProposalAsk& ask : wanted) ask.most = std::min(ask.most, most), ask.with_odds = settings_.fast;
  return wanted;
}

bool Speculation::may_try() const { return trials_s_ <= kTrialShare * figures_.seconds; }

// How many guesses to ask for. One that takes time is asked for as many as pay by its mean acceptance; where none pay,
// it is tried now and then on one text, ever more seldom, and never for more than kTrialShare of the time.
int64_t Speculation::depth(int64_t decoding, int64_t asked) {
  if (!settings_.measured || !(settings_.proposer->costs_time() || settings_.fast)) return settings_.most_tokens;
  if (!times_.knows(decoding)) return 0;
  // Where guesses are taken by chance, all texts are asked from the beginning.
  const bool costs = settings_.proposer->costs_time() && !settings_.fast;
  double right = 1, tried = 2;
  for (int k = 0; k < kGuessClasses; ++k) right += rates_.right[k], tried += rates_.tried[k];
  if (costs && (!guess_s_ || tried < kEvidence)) {
    trial_ = may_try();
    return trial_ ? 1 : 0;
  }
  const auto n = static_cast<double>(decoding);
  const double plain = n / (times_.estimate(decoding) + n * draw_s_.value_or(0));
  double best = plain * kMargin, worth = 1, tokens = n;
  int64_t length = 0;
  const int64_t most = std::max<int64_t>((times_.hoped() - decoding) / asked, 1);
  for (int64_t k = 1; k <= std::min(settings_.most_tokens, most); ++k) {
    tokens += static_cast<double>(asked) * (worth *= right / tried);
    const double seconds = times_.estimate(decoding + k * asked) + static_cast<double>(k) * guess_s_.value_or(0) +
                           tokens * draw_s_.value_or(0);
    if (tokens / seconds > best) best = tokens / seconds, length = k;
  }
  if (length > 0) {
    next_wait_ = 1, wait_ = 0;
  } else if (wait_-- <= 0 && may_try()) {
    wait_ = next_wait_ = std::min(2 * next_wait_, kLongestWait);
    length = 1, trial_ = costs;
  }
  return length;
}

// The likeliest guesses of all texts, as many as make the most tokens a second.
std::vector<int64_t> Speculation::lengths(std::span<const ProposalAsk> asks, int64_t decoding) {
  std::vector<int64_t> count(asks.size(), 0);
  if (settings_.measured && !times_.knows(decoding)) return count;
  struct Candidate {
    double worth;  // the chance that it is drawn
    size_t ask;
  };
  std::vector<Candidate> candidates;
  for (size_t i = 0; i < asks.size(); ++i) {
    const Text& text = texts_.at(asks[i].sequence);
    double worth = 1;
    for (size_t k = 0; k < text.guesses.size() && static_cast<int64_t>(k) < asks[i].most; ++k) {
      worth *= rate(text, text.guesses[k].kind);
      if (settings_.measured && worth < kLeast) break;
      candidates.push_back({worth, i});
    }
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const auto& a, const auto& b) { return a.worth > b.worth; });
  const int64_t room = settings_.measured ? std::min(settings_.budget, times_.hoped() - decoding) : settings_.budget;
  candidates.resize(std::min(candidates.size(), static_cast<size_t>(std::max<int64_t>(room, 0))));
  size_t best_count = settings_.measured ? 0 : candidates.size();
  if (settings_.measured) {
    const auto seconds = [&](int64_t rows, double drawn) {
      return times_.estimate(rows) + drawn * draw_s_.value_or(0);
    };
    double tokens = static_cast<double>(decoding), best = kMargin * tokens / seconds(decoding, tokens);
    for (size_t k = 0; k < candidates.size(); ++k) {
      tokens += candidates[k].worth;
      const double speed = tokens / seconds(decoding + static_cast<int64_t>(k) + 1, tokens);
      if (speed > best) best = speed, best_count = k + 1;
    }
  }
  for (size_t k = 0; k < best_count; ++k) ++count[candidates[k].ask];
  return count;
}

// All that was asked for, as far as the budget goes.
std::vector<int64_t> Speculation::fixed_lengths(std::span<const ProposalAsk> asks) const {
  std::vector<int64_t> count;
  int64_t room = settings_.budget;
  for (const ProposalAsk& ask : asks) {
    count.push_back(std::min(std::ssize(texts_.at(ask.sequence).guesses), room));
    room -= count.back();
  }
  return count;
}

const Odds* Speculation::odds(uint64_t sequence, size_t k) const {
  if (!settings_.fast) return nullptr;
  const Guess& guess = texts_.at(sequence).guesses.at(k);
  return guess.odds.empty() ? nullptr : &guess.odds;
}

// A guess is judged where all before it were right.
void Speculation::drawn(uint64_t sequence, std::span<const int32_t> tokens, int64_t computed) {
  Text& text = texts_[sequence];
  figures_.guessed += computed;
  // One that was not computed would have been the drawn token, or not; of one that is taken by chance nobody knows.
  const size_t known = settings_.fast ? static_cast<size_t>(computed) : text.guesses.size();
  for (size_t i = 0; i < std::min(tokens.size(), known); ++i) {
    const Guess& guess = text.guesses[i];
    const bool is_right = guess.token == tokens[i];
    text.rates.add(guess.kind, is_right, kKeepOfText);
    rates_.add(guess.kind, is_right, kKeepOfAll);
    if (!is_right) break;
    if (static_cast<int64_t>(i) < computed) ++figures_.accepted;
  }
  text.guesses.clear();
}

void Speculation::observe(int64_t decoding, int64_t rows, int64_t tokens, double compute_s, double draw_s) {
  times_.observe(rows, compute_s);
  blend(draw_s_, draw_s / static_cast<double>(std::max<int64_t>(tokens, 1)));
  ++figures_.steps, figures_.with_guesses += rows > decoding;
  figures_.tokens += tokens;
  figures_.seconds += guessing_s_ + compute_s + draw_s;
  const double steps = static_cast<double>(tokens) / static_cast<double>(decoding);
  figures_.plain_seconds += draw_s + (times_.knows(decoding) ? steps * times_.estimate(decoding) : compute_s);
}

void Speculation::forget(uint64_t sequence) {
  texts_.erase(sequence);
  settings_.proposer->forget(sequence);
}

}  // namespace tern
