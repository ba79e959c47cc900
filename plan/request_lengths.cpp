#include "plan/request_lengths.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tern {
namespace {

constexpr double kGroupsOfADoubling = 4;
constexpr double kRoundedOfADoubling = 64;
constexpr int kPowers = 17;     // of two, of users
constexpr int kExponents = 64;  // tried in Chernoff's bound, each √e of the one before

// Neighbouring lengths together: no product of a group differs from its lengths' by more than a twentieth or so.
std::vector<PromptGroup> grouped(const SequenceLengths& l) {
  std::vector<PromptGroup> out;
  double tokens = 0, count = 0;
  int64_t group = -1;
  const auto close = [&] {
    if (count > 0) out.push_back({std::llround(tokens / count), count / static_cast<double>(l.sequences)});
    tokens = count = 0;
  };
  for (const LengthCount& r : l.rows) {
    const auto own = static_cast<int64_t>(std::log2(static_cast<double>(r.length)) * kGroupsOfADoubling);
    if (own != group) close();
    group = own;
    tokens += static_cast<double>(r.length) * static_cast<double>(r.count), count += static_cast<double>(r.count);
  }
  close();
  return out;
}

// Lengths and how often they are there.
struct Share {
  double length, share;
};

// Neighbours together as the longest of them, rising. `in_flight`: as often as they are long.
std::vector<Share> rounded_up(const SequenceLengths& l, bool in_flight) {
  std::vector<Share> out;
  int64_t group = -1;
  for (const LengthCount& r : l.rows) {
    const auto length = static_cast<double>(r.length), count = static_cast<double>(r.count);
    const double share =
        in_flight ? length * count / static_cast<double>(l.tokens) : count / static_cast<double>(l.sequences);
    const auto own = static_cast<int64_t>(std::log2(length) * kRoundedOfADoubling);
    if (own == group)
      out.back() = {length, out.back().share + share};
    else
      out.push_back({length, share});
    group = own;
  }
  return out;
}

// ln E[e^(t·l)]
double log_exponential(const std::vector<Share>& l, double t) {
  double sum = 0;
  for (const Share& x : l) sum += x.share * std::exp(t * (x.length - l.back().length));
  return t * l.back().length + std::log(sum);
}

// The least sum of one of each that is exceeded with `rare` at most, to a token.
int64_t exceeded_with(double rare, const std::vector<Share>& a, const std::vector<Share>& b) {
  std::vector<double> above(b.size() + 1);  // share of b from i on
  for (size_t i = b.size(); i-- > 0;) above[i] = above[i + 1] + b[i].share;
  int64_t low = 0, high = std::llround(a.back().length + b.back().length);
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    double more = 0;
    size_t i = b.size();  // the first of b that is too long beside x
    for (const Share& x : a) {
      while (i > 0 && x.length + b[i - 1].length > static_cast<double>(middle)) --i;
      more += x.share * above[i];
    }
    (more <= rare ? high : low) = middle;
  }
  return high;
}

}  // namespace

RequestLengths::RequestLengths(SequenceLengths prompts, SequenceLengths answers)
    : prompts_(std::move(prompts)), answers_(std::move(answers)), groups_(grouped(prompts_)) {
  for (const auto& [length, count] : answers_.rows)
    mean_answer_in_flight_ +=
        static_cast<double>(length) * (static_cast<double>(length * count) / static_cast<double>(answers_.tokens));
  const std::vector<Share> prompt = rounded_up(prompts_, false), answer = rounded_up(answers_, true);
  for (int i = 0; i < kPowers; ++i) exceeded_.push_back(exceeded_with((1 - kHigh) / std::exp2(i), prompt, answer));
  const double longest = prompt.back().length + answer.back().length;
  for (int k = 0; k < kExponents; ++k) {
    const double t = std::exp(0.5 * (k - 0.6 * kExponents)) * 100 / longest;
    exponent_.emplace_back(t, log_exponential(prompt, t) + log_exponential(answer, t));
  }
}

double RequestLengths::decode_context() const { return prompts_.mean() + mean_answer_in_flight_ / 2; }
double RequestLengths::mean_context() const { return prompts_.mean() + mean_answer_in_flight_; }

int64_t RequestLengths::room(int64_t users, int64_t page) const {
  if (users <= 0) return 0;
  const auto n = static_cast<double>(users);
  size_t power = 0;
  while (power + 1 < exceeded_.size() && int64_t{1} << power < users) ++power;
  const int64_t longest = prompts_.longest() + answers_.longest();
  const int64_t one = int64_t{1} << power < users ? longest : exceeded_[power];
  int64_t least = users * ((one + page - 1) / page * page);
  for (const auto& [t, log_mean] : exponent_) {
    const double tokens = (n * log_mean - std::log(1 - kHigh)) / t + n * static_cast<double>(page - 1);
    if (tokens < static_cast<double>(least))
      least = static_cast<int64_t>(std::ceil(tokens / static_cast<double>(page))) * page;
  }
  return least;
}

}  // namespace tern
