#include "infer/speculate/speculation.h"

#include <algorithm>

namespace tern {
namespace {

constexpr double kKeepOfText = 0.97, kKeepOfAll = 0.998;  // weight of the guess before
constexpr double kPrior = 4;                              // guesses of all texts that one text begins with
constexpr double kLeast = 0.01;                           // less likely guesses are passed over
constexpr int64_t kUsualRows = 64;

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
  guessing_s_ = 0, asked_ = false;
  for (const ProposalAsk& ask : asks) {
    Text& text = texts_[ask.sequence];
    text.guesses.clear(), text.generated = ask.num_generated;
  }
  if (asks.empty()) return chosen;
  const Plan plan = this->plan(asks, decoding);
  if (plan.most == 0) return chosen;
  std::vector<ProposalAsk> wanted;
  for (const size_t i : plan.of) {
    wanted.push_back(asks[i]);
    wanted.back().most = std::min(asks[i].most, plan.most), wanted.back().with_odds = settings_.fast;
  }
  const int64_t begin_ns = clock_.now_ns();
  std::vector<std::vector<Guess>> guesses = settings_.proposer->propose(wanted);
  guessing_s_ = seconds_between(begin_ns, clock_.now_ns());
  asked_ = settings_.proposer->costs_time();
  for (size_t i = 0; i < wanted.size(); ++i) texts_[wanted[i].sequence].guesses = std::move(guesses[i]);
  const std::vector<int64_t> count = settings_.fast ? fixed_lengths(asks) : lengths(asks, decoding);
  for (size_t i = 0; i < asks.size(); ++i)
    for (int64_t k = 0; k < count[i]; ++k)
      chosen[i].push_back(texts_.at(asks[i].sequence).guesses[static_cast<size_t>(k)].token);
  return chosen;
}

// The mean over classes; `seen`: of how many guesses.
double Speculation::acceptance(double* seen) const {
  double right = 1, tried = 2;
  for (int k = 0; k < kGuessClasses; ++k) right += rates_.right[k], tried += rates_.tried[k];
  if (seen) *seen = tried;
  return right / tried;
}

// The likeliest guesses of all texts, as many as make the most tokens a second.
std::vector<int64_t> Speculation::lengths(std::span<const ProposalAsk> asks, int64_t decoding) {
  std::vector<int64_t> count(asks.size(), 0);
  if (!may_ask() || (settings_.measured && !times_.knows(decoding))) return count;
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
    const auto n = static_cast<double>(decoding);
    const double without_s = seconds(decoding, n);
    // A draft that was asked has been paid for.
    const bool is_paid = settings_.proposer->costs_time();
    double tokens = n, best = kMargin * tokens / without_s;
    for (size_t k = 0; k < candidates.size(); ++k) {
      tokens += candidates[k].worth;
      const double with_s = seconds(decoding + static_cast<int64_t>(k) + 1, tokens);
      if (!is_paid && !account_.can_pay(with_s - without_s * (1 + kSureShare * (tokens - n) / n))) break;
      if (const double speed = tokens / with_s; speed > best) best = speed, best_count = k + 1;
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
  const bool has_guesses = rows > decoding, is_plain = !has_guesses && !asked_ && !behind_asked_;
  const double seconds = guessing_s_ + compute_s + draw_s;
  const double usual_s = times_.knows(rows) ? times_.estimate(rows) : compute_s;
  if (is_plain)
    account_.observe_plain(decoding, compute_s + draw_s);
  else  // one that the machine held up says nothing of guesses, and would cost more than is ever saved up
    account_.observe_guessed(decoding, tokens,
                             seconds - compute_s + std::min(compute_s, GuessAccount::kLongestHeld * usual_s));
  account_.earn(seconds);
  // A step without guesses that a draft has just made slow is no measure of one.
  if (has_guesses || is_plain) times_.observe(rows, compute_s), lasting_times_.observe(rows, compute_s);
  behind_asked_ = asked_, behind_prompt_ = false;
  blend(draw_s_, draw_s / static_cast<double>(std::max<int64_t>(tokens, 1)));
  ++figures_.steps, figures_.with_guesses += has_guesses;
  figures_.tokens += tokens;
  figures_.seconds += seconds;
  const double steps = static_cast<double>(tokens) / static_cast<double>(decoding);
  figures_.plain_seconds += draw_s + (times_.knows(decoding) ? steps * times_.estimate(decoding) : compute_s);
}

// What rows of guesses took beside prompts is not measured: it is what so many rows more usually take.
void Speculation::observe_prompts(int64_t rows, double compute_s, int64_t decoding, int64_t guessed, int64_t accepted) {
  lasting_times_.observe(rows, compute_s);
  if (asked_ || guessed > 0) {
    const double rows_s = lasting_times_.estimate(rows) - lasting_times_.estimate(rows - guessed);
    const double token_s = account_.plain_s(decoding) / static_cast<double>(std::max<int64_t>(decoding, 1));
    account_.charge(guessing_s_ + std::max(rows_s, 0.0) - static_cast<double>(accepted) * token_s);
  }
  account_.earn(guessing_s_ + compute_s);
  behind_asked_ = asked_, behind_prompt_ = true;
}

void Speculation::forget(uint64_t sequence) {
  if (const auto text = texts_.find(sequence); text != texts_.end()) {
    if (text->second.generated > 0) blend(length_, static_cast<double>(text->second.generated + 1));
    texts_.erase(text);
  }
  settings_.proposer->forget(sequence);
}

}  // namespace tern
