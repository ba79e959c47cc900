#include "infer/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string_view>
#include <unordered_map>

#include "base/error.h"
#include "base/rng.h"
#include "kernels/cpu/cross_entropy.h"
#include "model/not_finite.h"

namespace tern {
namespace {

using Candidates = std::vector<std::pair<int32_t, double>>;

void renormalize(Candidates& kept) {
  double sum = 0;
  for (const auto& [id, p] : kept) sum += p;
  for (auto& [id, p] : kept) p /= sum;
}

// Most probable first; equal ones by id, so that the order is one.
bool more_probable(const std::pair<int32_t, double>& a, const std::pair<int32_t, double>& b) {
  return a.second != b.second ? a.second > b.second : a.first < b.first;
}

// Scores of -inf are never drawn; anything else that is no number says that the model computes nonsense.
void check_logits(std::span<const float> logits) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  uint32_t bad = 0, finite = 0;  // as wide as a score, so that the loop becomes vectors
  for (const float x : logits) bad += !(x < kInfinity), finite += std::isfinite(x);
  if (bad > 0 || finite == 0)
    throw NotFinite(
        "the model's scores for the next token are not finite ({} of {}), though its weights may be: they leave the "
        "range of the type it computes in; try --dtype f32",
        bad > 0 ? bad : static_cast<uint32_t>(logits.size()), logits.size());
}

// The first of the highest scores. First by eight at a time what the highest is, then where.
int32_t greedy(std::span<const float> logits) {
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  constexpr size_t kLanes = 8;
  float lanes[kLanes];
  std::fill_n(lanes, kLanes, kLowest);
  size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] = logits[i + lane] > lanes[lane] ? logits[i + lane] : lanes[lane];
  float highest = kLowest;
  for (const float x : lanes) highest = std::max(highest, x);
  for (; i < logits.size(); ++i) highest = std::max(highest, logits[i]);
  const auto at = std::find(logits.begin(), logits.end(), highest);
  const int32_t best = at == logits.end() ? -1 : static_cast<int32_t>(at - logits.begin());
  TERN_CHECK(best >= 0 && std::isfinite(highest), "sample_token: no finite logit among {}", logits.size());
  return best;
}

double uniform(const SamplingOptions& options, std::string_view what, uint64_t sequence, uint64_t position) {
  return random_uniform({options.seed, hash_name(what) ^ (sequence * 0x9e3779b97f4a7c15ull)}, position);
}

int32_t pick(const Candidates& kept, double draw) {
  double sum = 0;
  for (const auto& [id, p] : kept)
    if (draw < (sum += p)) return id;
  return kept.back().first;  // the sum fell short of 1 by rounding
}

// The odds of a score beside the highest one, not yet divided by their sum; of NaN 0: it is never drawn.
double odds_of(const SamplingOptions& options, float score, double highest) {
  const double p = std::exp((static_cast<double>(score) - highest) / options.temperature);
  return p > 0 ? p : 0;
}

// pick(candidates(…), draw) without filters: all ids, in their order.
int32_t pick_of_all(const SamplingOptions& options, std::span<const float> logits, double draw) {
  const double highest = logits[static_cast<size_t>(greedy(logits))];
  std::vector<double> odds(logits.size());
  double total = 0, sum = 0;
  for (size_t i = 0; i < logits.size(); ++i) total += odds[i] = odds_of(options, logits[i], highest);
  size_t last = 0;
  for (size_t i = 0; i < odds.size(); ++i) {
    if (odds[i] == 0) continue;
    last = i;
    if (draw * total < (sum += odds[i])) break;
  }
  return static_cast<int32_t>(last);
}

// 0 where the id is not among them; they are in the order of ids.
double probability(const Candidates& odds, int32_t id) {
  const auto found =
      std::lower_bound(odds.begin(), odds.end(), id, [](const auto& c, int32_t other) { return c.first < other; });
  return found != odds.end() && found->first == id ? found->second : 0;
}

void check_range(const char* flag, double value, double low, double high, const char* words) {
  if (!(value >= low && value <= high)) throw Error(ErrorKind::usage, "--{} is {}; it must be {}", flag, value, words);
}

}  // namespace

void check_sampling(const SamplingOptions& options) {
  constexpr double kMax = std::numeric_limits<double>::max();
  check_range("temperature", options.temperature, 0, kMax, "0 (greedy) or above");
  check_range("top-k", static_cast<double>(options.top_k), 0, kMax, "0 (off) or above");
  check_range("top-p", options.top_p, std::numeric_limits<double>::min(), 1, "above 0 and at most 1 (off)");
  check_range("min-p", options.min_p, 0, 1, "between 0 (off) and 1");
  check_range("repetition-penalty", options.repetition_penalty, std::numeric_limits<double>::min(), kMax,
              "above 0; 1 is off");
  check_range("presence-penalty", options.presence_penalty, -kMax, kMax, "a finite number");
  check_range("frequency-penalty", options.frequency_penalty, -kMax, kMax, "a finite number");
}

bool has_penalties(const SamplingOptions& o) {
  return o.repetition_penalty != 1.0 || o.presence_penalty != 0.0 || o.frequency_penalty != 0.0 ||
         !o.logit_bias.empty();
}

void apply_penalties(const SamplingOptions& options, std::span<const int32_t> history, int64_t num_generated,
                     std::span<float> logits) {
  if (options.repetition_penalty != 1.0) {
    std::vector<int32_t> seen(history.begin(), history.end());
    std::sort(seen.begin(), seen.end());
    seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
    const auto penalty = static_cast<float>(options.repetition_penalty);
    for (const int32_t id : seen) {
      float& logit = logits[static_cast<size_t>(id)];
      logit = logit < 0 ? logit * penalty : logit / penalty;
    }
  }
  if (options.presence_penalty != 0.0 || options.frequency_penalty != 0.0) {
    std::unordered_map<int32_t, int64_t> counts;
    for (const int32_t id : history.last(static_cast<size_t>(num_generated))) ++counts[id];
    for (const auto& [id, count] : counts)
      logits[static_cast<size_t>(id)] -=
          static_cast<float>(options.presence_penalty + static_cast<double>(count) * options.frequency_penalty);
  }
  for (const auto& [id, bias] : options.logit_bias) logits[static_cast<size_t>(id)] += static_cast<float>(bias);
}

Candidates candidates(const SamplingOptions& options, std::span<const float> logits) {
  TERN_CHECK(options.temperature > 0, "candidates: temperature {}", options.temperature);
  const double highest = logits[static_cast<size_t>(greedy(logits))];
  Candidates kept;
  kept.reserve(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] == -std::numeric_limits<float>::infinity()) continue;  // most, under a grammar
    if (const double p = odds_of(options, logits[i], highest); p > 0) kept.emplace_back(static_cast<int32_t>(i), p);
  }
  if (options.top_k > 0 && options.top_k < static_cast<int64_t>(kept.size())) {
    Candidates sorted = kept;
    std::nth_element(sorted.begin(), sorted.begin() + (options.top_k - 1), sorted.end(), more_probable);
    const double least = sorted[static_cast<size_t>(options.top_k - 1)].second;
    std::erase_if(kept, [&](const auto& c) { return c.second < least; });
  }
  renormalize(kept);
  if (options.top_p < 1.0) {
    std::sort(kept.begin(), kept.end(), more_probable);
    double sum = 0;
    size_t count = 0;
    while (count < kept.size() && sum < options.top_p) sum += kept[count++].second;
    kept.resize(std::max<size_t>(count, 1));
    renormalize(kept);
  }
  if (options.min_p > 0) {
    const double most = std::max_element(kept.begin(), kept.end(), [](const auto& a, const auto& b) {
                          return a.second < b.second;
                        })->second;
    std::erase_if(kept, [&](const auto& c) { return c.second < options.min_p * most; });
    renormalize(kept);
  }
  if (options.top_p < 1.0) std::sort(kept.begin(), kept.end());  // by id again
  return kept;
}

int32_t sample_token(const SamplingOptions& options, std::span<const int32_t> history, int64_t num_generated,
                     uint64_t sequence, uint64_t position, std::span<float> logits) {
  check_logits(logits);
  apply_penalties(options, history, num_generated, logits);
  if (options.temperature == 0) return greedy(logits);
  const double draw = uniform(options, "sample", sequence, position);
  const bool filters = options.top_k > 0 || options.top_p < 1.0 || options.min_p > 0;
  return filters ? pick(candidates(options, logits), draw) : pick_of_all(options, logits, draw);
}

DrawnGuess draw_guess(const SamplingOptions& options, std::span<const int32_t> history, int64_t num_generated,
                      uint64_t sequence, uint64_t position, std::span<float> logits) {
  if (options.temperature == 0) return {sample_token(options, history, num_generated, sequence, position, logits), {}};
  check_logits(logits);
  apply_penalties(options, history, num_generated, logits);
  DrawnGuess guess{.odds = candidates(options, logits)};
  guess.token = pick(guess.odds, uniform(options, "guess", sequence, position));
  return guess;
}

int32_t accept_or_draw(const SamplingOptions& options, std::span<const int32_t> history, int64_t num_generated,
                       uint64_t sequence, uint64_t position, int32_t guess, const Odds& odds, std::span<float> logits) {
  if (options.temperature == 0) return sample_token(options, history, num_generated, sequence, position, logits);
  check_logits(logits);
  apply_penalties(options, history, num_generated, logits);
  const Candidates all = candidates(options, logits);
  Candidates left = all;
  const double p = probability(all, guess), q = probability(odds, guess);
  if (uniform(options, "accept", sequence, position) * q < p) return guess;
  for (auto& [id, x] : left) x = std::max(0.0, x - probability(odds, id));
  std::erase_if(left, [](const auto& c) { return c.second == 0; });
  if (left.empty()) left = all;  // p and q differ by rounding alone
  renormalize(left);
  return pick(left, uniform(options, "sample", sequence, position));
}

std::vector<std::pair<int32_t, double>> likeliest(std::span<const float> logits, int64_t count) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto first = static_cast<ptrdiff_t>(std::min<size_t>(static_cast<size_t>(count), ids.size()));
  std::partial_sort(ids.begin(), ids.begin() + first, ids.end(), [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  });
  std::vector<std::pair<int32_t, double>> found;
  for (ptrdiff_t i = 0; i < first; ++i)
    found.emplace_back(ids[static_cast<size_t>(i)], log_probability(logits, ids[static_cast<size_t>(i)]));
  return found;
}

double log_probability(std::span<const float> logits, int32_t token) {
  float loss = 0;
  cross_entropy(static_cast<int64_t>(logits.size()), std::span(&token, 1), logits, std::span(&loss, 1));
  return -static_cast<double>(loss);
}

}  // namespace tern
