#include "infer/speculate/speculation.h"

#include <algorithm>

namespace tern {
namespace {

constexpr double kKeepOfText = 0.97, kKeepOfAll = 0.998;  // weight of the guess before
constexpr double kPrior = 4;                              // guesses of all texts that one text begins with
constexpr double kLeast = 0.01;                           // less likely guesses are passed over
constexpr double kMargin = 1.03;                          // times are uncertain: a gain must be worth it
constexpr double kTrialShare = 0.015;                     // of all time, that trials may take
constexpr double kEvidence = 16;                          // guesses seen before all texts are asked for
constexpr int64_t kUsualRows = 64, kLongestWait = 512;
constexpr int64_t kDrawnSince = 2;  // tokens

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
  guessing_s_ = 0;
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
  if (plan.is_trial) trials_s_ += guessing_s_;
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

// What to ask for. A proposer that takes time is asked for as many guesses as pay by its mean acceptance, of the texts whose
// reading pays too; where none do, it is tried now and then on one text, ever more seldom, and never for more than kTrialShare
// of the time.
Speculation::Plan Speculation::plan(std::span<const ProposalAsk> asks, int64_t decoding) {
  const Proposer& proposer = *settings_.proposer;
  // Where guesses are taken by chance, all texts are asked from the beginning.
  const bool costs = proposer.costs_time() && !settings_.fast;
  Plan all;
  std::vector<int64_t> unread(asks.size(), 0);
  const bool decides = settings_.measured && (costs || settings_.fast);
  for (size_t i = 0; i < asks.size(); ++i) {
    if (decides && costs) unread[i] = proposer.unread(asks[i]);
    if (!decides || !costs || unread[i] > 0) all.of.push_back(i);
  }
  if (!decides) return all.most = settings_.most_tokens, all;
  if (all.of.empty() || !times_.knows(decoding)) return {};
  double seen = 0;
  const double right = acceptance(&seen);
  if (costs && (proposer.compute_s(1) <= 0 || seen < kEvidence)) return trial(asks, unread);
  Forecast best = forecast(decoding, std::ssize(all.of), right);
  if (costs && best.most > 0) {
    drop_those_not_worth_reading(all, asks, unread, decoding, best);
    best = forecast(decoding, std::ssize(all.of), right);
  }
  all.most = best.most;
  if (all.most > 0) {
    next_wait_ = 1, wait_ = 0;
  } else if (wait_-- <= 0) {
    Plan tried = all;
    tried.most = 1;
    if (costs) tried = trial(asks, unread);
    if (tried.most > 0) wait_ = next_wait_ = std::min(2 * next_wait_, kLongestWait);
    all = tried;
  }
  if (settings_.fast) all.most = std::min(all.most, std::max<int64_t>(settings_.budget / std::ssize(all.of), 1));
  return all;
}

// Of the text that takes the least reading, if trials may take so long.
Speculation::Plan Speculation::trial(std::span<const ProposalAsk> asks, std::span<const int64_t> unread) const {
  Plan one{.of = {}, .most = 1, .is_trial = true};
  size_t least = asks.size();
  for (size_t i = 0; i < asks.size(); ++i)
    if (unread[i] > 0 && (least == asks.size() || unread[i] < unread[least])) least = i;
  const double begun_s = trials_s_ > 0 ? settings_.proposer->compute_s(unread[least]) : 0;
  if (trials_s_ + begun_s > kTrialShare * figures_.seconds) return {};
  one.of = {least};
  return one;
}

// The number of guesses for each of `asked` texts that makes the most tokens a second.
Speculation::Forecast Speculation::forecast(int64_t decoding, int64_t asked, double acceptance) const {
  Forecast found;
  if (asked == 0) return found;
  const auto n = static_cast<double>(decoding);
  const double draw_s = draw_s_.value_or(0), pass_s = settings_.proposer->compute_s(asked);
  const double plain = n / (times_.estimate(decoding) + n * draw_s);
  double best = plain * kMargin, worth = 1, tokens = n;
  const int64_t most = std::max<int64_t>((times_.hoped() - decoding) / asked, 1);
  for (int64_t k = 1; k <= std::min(settings_.most_tokens, most); ++k) {
    tokens += static_cast<double>(asked) * (worth *= acceptance);
    const double seconds = step_s(decoding + k * asked) + static_cast<double>(k) * pass_s + tokens * draw_s;
    if (tokens / seconds <= best) continue;
    best = tokens / seconds;
    found = {.most = k, .saved_s = tokens / plain - seconds, .tokens = tokens};
  }
  return found;
}

// Guesses of a text that was not asked for lately have to save, while it lasts, the time in which it is read. One or two tokens are
// those drawn since it was asked.
void Speculation::drop_those_not_worth_reading(Plan& plan, std::span<const ProposalAsk> asks,
                                               std::span<const int64_t> unread, int64_t decoding,
                                               const Forecast& f) const {
  const auto asked = std::ssize(plan.of);
  const Proposer& proposer = *settings_.proposer;
  const double saved_s = f.saved_s / static_cast<double>(asked), steps = static_cast<double>(decoding) / f.tokens;
  std::erase_if(plan.of, [&](size_t i) {
    if (unread[i] <= kDrawnSince) return false;
    const double read_s = proposer.compute_s(asked - 1 + unread[i]) - proposer.compute_s(asked);
    return read_s > saved_s * steps * left(asks[i]);
  });
}

// Tokens that a text may still get: as many as others had, or as many again as it has.
double Speculation::left(const ProposalAsk& ask) const {
  const auto generated = static_cast<double>(ask.num_generated);
  return std::min(static_cast<double>(ask.most), std::max(length_.value_or(0) - generated, generated));
}

// Of numbers of rows that no step of decoding had of late, what steps with prompts say, if they say more than hope does.
double Speculation::step_s(int64_t rows) const {
  const double lately = times_.estimate(rows);
  return times_.knows(rows) ? lately : std::max(lately, lasting_times_.estimate(rows));
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
  lasting_times_.observe(rows, compute_s);
  blend(draw_s_, draw_s / static_cast<double>(std::max<int64_t>(tokens, 1)));
  ++figures_.steps, figures_.with_guesses += rows > decoding;
  figures_.tokens += tokens;
  figures_.seconds += guessing_s_ + compute_s + draw_s;
  const double steps = static_cast<double>(tokens) / static_cast<double>(decoding);
  figures_.plain_seconds += draw_s + (times_.knows(decoding) ? steps * times_.estimate(decoding) : compute_s);
}

void Speculation::forget(uint64_t sequence) {
  if (const auto text = texts_.find(sequence); text != texts_.end()) {
    if (text->second.generated > 0) blend(length_, static_cast<double>(text->second.generated + 1));
    texts_.erase(text);
  }
  settings_.proposer->forget(sequence);
}

}  // namespace tern
