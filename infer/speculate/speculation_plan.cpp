// Whom a step asks for guesses, and for how many of them: Speculation's forecasts.
#include <algorithm>

#include "infer/speculate/speculation.h"

namespace tern {
namespace {

constexpr double kUnseenDraft = 0.125;  // of the model's own time to read, hoped before the first trial
constexpr double kEvidence = 16;        // guesses seen before all texts are asked for
constexpr int64_t kLongestWait = 512;   // steps
constexpr int64_t kDrawnSince = 2;      // tokens
constexpr int64_t kOnePass = 64;        // tokens that are read in one pass

// Of more tokens than were ever read at once compute_s hopes the best, as of guesses. What is paid in advance is feared: each takes as
// long as it does in a short pass.
double price_of_reading(const Proposer& proposer, int64_t tokens) {
  const double hoped_s = proposer.compute_s(tokens);
  if (tokens <= kOnePass) return hoped_s;
  return std::max(hoped_s, proposer.compute_s(kOnePass) * static_cast<double>(tokens) / static_cast<double>(kOnePass));
}

}  // namespace

// Whether the account lets guesses be computed now. A draft is not asked behind a step that read prompts: others usually follow, and
// beside prompts what rows of guesses cost is not measured.
bool Speculation::may_ask() const {
  if (!settings_.measured) return true;
  const bool unmeasured = behind_prompt_ && settings_.proposer->costs_time() && !settings_.fast;
  return account_.is_open() && !account_.wants_plain() && account_.left_s() >= 0 && !unmeasured;
}

// What to ask for. A proposer that takes time is asked for as many guesses as pay by its mean acceptance, of the texts whose
// reading pays too, as far as the account can pay for them; where none pay, it is tried now and then on one text, ever more seldom.
Speculation::Plan Speculation::plan(std::span<const ProposalAsk> asks, int64_t decoding) {
  const Proposer& proposer = *settings_.proposer;
  // Where guesses are taken by chance, all texts are asked from the beginning.
  const bool costs = proposer.costs_time() && !settings_.fast;
  Plan all;
  std::vector<int64_t> unread(asks.size(), 0);
  const bool decides = settings_.measured && (costs || settings_.fast);
  if (decides && !may_ask()) return {};
  for (size_t i = 0; i < asks.size(); ++i) {
    if (decides && costs) unread[i] = proposer.unread(asks[i]);
    if (!decides || !costs || unread[i] > 0) all.of.push_back(i);
  }
  if (!decides) return all.most = settings_.most_tokens, all;
  if (all.of.empty() || !times_.knows(decoding)) return {};
  double seen = 0;
  const double right = acceptance(&seen);
  if (costs && (proposer.compute_s(1) <= 0 || seen < kEvidence)) return trial(asks, unread, decoding);
  Forecast best = forecast(decoding, std::ssize(all.of), right);
  if (costs && best.most > 0) {
    drop_those_not_worth_reading(all, asks, unread, decoding, best);
    best = forecast(decoding, std::ssize(all.of), right);
  }
  all.most = best.most;
  if (all.most > 0) {
    next_wait_ = 1, wait_ = 0;
    if (costs && !pay(all, unread, decoding, right)) return {};
  } else if (wait_-- <= 0) {
    Plan tried = all;
    tried.most = 1;
    if (costs) tried = trial(asks, unread, decoding);
    if (tried.most > 0) wait_ = next_wait_ = std::min(2 * next_wait_, kLongestWait);
    all = tried;
  }
  if (settings_.fast) all.most = std::min(all.most, std::max<int64_t>(settings_.budget / std::ssize(all.of), 1));
  return all;
}

// Of the text that takes the least reading, if so much may be lost.
Speculation::Plan Speculation::trial(std::span<const ProposalAsk> asks, std::span<const int64_t> unread,
                                     int64_t decoding) {
  Plan one{.of = {}, .most = 1};
  size_t least = asks.size();
  for (size_t i = 0; i < asks.size(); ++i)
    if (unread[i] > 0 && (least == asks.size() || unread[i] < unread[least])) least = i;
  const Proposer& proposer = *settings_.proposer;
  const double read_s = proposer.compute_s(1) > 0 ? price_of_reading(proposer, unread[least])
                                                  : kUnseenDraft * lasting_times_.estimate(unread[least]);
  const double price_s = read_s + std::max(step_s(decoding + 1) - step_s(decoding), 0.0);
  account_.save_for(price_s);
  if (!account_.can_pay(price_s)) return {};
  one.of = {least};
  return one;
}

// All texts of the plan, or the half, the quarter ... of them that has the least to be read, if the account can pay for what is lost where
// only kSureShare of the gain comes. False: for none that would pay.
bool Speculation::pay(Plan& plan, std::span<const int64_t> unread, int64_t decoding, double acceptance) {
  std::ranges::stable_sort(plan.of, {}, [&](size_t i) { return unread[i]; });
  const Proposer& proposer = *settings_.proposer;
  for (double wanted_s = 0;;) {
    const auto asked = std::ssize(plan.of);
    const Forecast f = forecast(decoding, asked, acceptance);
    if (f.most == 0) return false;
    plan.most = f.most;
    int64_t rows = 0;
    for (const size_t i : plan.of) rows += unread[i];
    const double read_s = std::max(price_of_reading(proposer, rows) - proposer.compute_s(asked), 0.0);
    const double price_s = read_s + std::max(kSureShare * f.worth_s - f.saved_s, 0.0);
    if (!account_.can_pay(price_s)) wanted_s = price_s;
    account_.save_for(wanted_s);
    if (account_.can_pay(price_s)) return true;
    if (asked == 1) return false;
    plan.of.resize((plan.of.size() + 1) / 2);
  }
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
    found = {.most = k, .saved_s = tokens / plain - seconds, .worth_s = (tokens - n) / plain, .tokens = tokens};
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

}  // namespace tern
