#include "plan/window_mix.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/rng.h"
#include "spec/attended_pairs.h"
#include "spec/training_flops.h"
#include "spec/unit_cost.h"

namespace tern {
namespace {

using Wide = __int128;
constexpr int64_t kMostWindows = 1 << 14, kLeastWindows = 256;  // that are drawn once
constexpr double kDraws = 1 << 20;                              // of sequences for them
constexpr int64_t kRankSums = 1 << 14, kLeastSteps = 8;         // ranks × steps of one estimate

// Σ_{k = 1 … m} pairs(k·g).
Wide summed_pairs(const AttentionSpec& a, int64_t g, int64_t m) {
  const auto squares = [](Wide n) { return n * (n + 1) * (2 * n + 1) / 6; };
  const auto numbers = [](Wide n) { return n * (n + 1) / 2; };
  if (!a.causal) return Wide{g} * g * squares(m);
  const Wide w = a.window, within = a.window > 0 ? std::min<Wide>(m, a.window / g) : m;
  const Wide below = (Wide{g} * g * squares(within) + g * numbers(within)) / 2;
  return below + w * g * (numbers(m) - numbers(within)) - (m - within) * (w * (w - 1) / 2);
}

AttentionSpec attention_like(bool causal, int64_t window) {
  AttentionSpec a;
  a.causal = causal, a.window = window;
  return a;
}

}  // namespace

WindowMix::WindowMix(SequenceLengths lengths, Batching batching) : lengths_(std::move(lengths)), batching_(batching) {}

double WindowMix::real_tokens(int64_t seq) const {
  const auto S = static_cast<double>(seq);
  return batching_ == Batching::packed ? S : lengths_.mean() * (1 - cut_tokens(seq));
}

double WindowMix::pairs(const AttentionSpec& a, int64_t seq) const {
  return batching_ == Batching::padded ? static_cast<double>(attended_pairs(a, seq)) : real_pairs(a, seq);
}

double WindowMix::real_pairs(const AttentionSpec& a, int64_t seq) const {
  const std::lock_guard lock(mutex_);
  const auto [known, is_new] = means_.try_emplace({a.causal, a.window, seq});
  if (is_new) known->second = mean_pairs(a, seq);
  return known->second;
}

int64_t WindowMix::step_of(int64_t seq) const {
  int64_t g = seq;
  for (const LengthCount& r : lengths_.rows) g = std::gcd(g, r.length);
  return g;
}

double WindowMix::mean_pairs(const AttentionSpec& a, int64_t seq) const {
  double mean = 0;
  if (batching_ == Batching::padded) {
    for (const auto& [length, count] : lengths_.rows)
      mean += static_cast<double>(attended_pairs(a, std::min(length, seq))) *
              (static_cast<double>(count) / static_cast<double>(lengths_.sequences));
    return mean;
  }
  const int64_t g = step_of(seq);
  const Wide S = seq / g, whole = attended_pairs(a, seq);
  const Wide longer = summed_pairs(a, g, seq / g) + summed_pairs(a, g, seq / g - 1);
  for (const auto& [length, count] : lengths_.rows) {
    const Wide l = length / g;
    const Wide all = l <= S ? (S - l + 1) * Wide{attended_pairs(a, length)} + 2 * summed_pairs(a, g, length / g - 1)
                            : longer + (l - S) * whole;
    // Whole and rest apart: exact where it divides, as it does where all lengths are alike.
    const double filled =
        static_cast<double>(all * g / length) + static_cast<double>(all * g % length) / static_cast<double>(length);
    mean += filled * (static_cast<double>(count * length) / static_cast<double>(lengths_.tokens));
  }
  return mean;
}

int64_t WindowMix::most_pairs(const AttentionSpec& a, int64_t seq) const {
  if (batching_ == Batching::padded || lengths_.longest() >= seq) return attended_pairs(a, seq);
  // The longest ones side by side: pairs of two pieces are most where one is as long as it may be.
  const int64_t longest = lengths_.longest();
  return seq / longest * attended_pairs(a, longest) + attended_pairs(a, seq % longest);
}

double WindowMix::cut_tokens(int64_t seq) const {
  if (batching_ == Batching::packed) return 0;
  double cut = 0;
  for (const auto& [length, count] : lengths_.rows)
    cut += static_cast<double>(count) * static_cast<double>(std::max<int64_t>(0, length - seq));
  return cut / static_cast<double>(lengths_.tokens);
}

double WindowMix::split_sequences(int64_t seq) const {
  if (batching_ == Batching::padded) return 0;
  const int64_t g = step_of(seq);
  double split = 0;
  for (const auto& [length, count] : lengths_.rows)
    split += static_cast<double>(count) * static_cast<double>(std::min(length, seq + g) - g) / static_cast<double>(seq);
  return split / static_cast<double>(lengths_.sequences);
}

std::vector<double> WindowMix::sample(const Kind& kind) const {
  const auto [causal, window, seq] = kind;
  const AttentionSpec a = attention_like(causal, window);
  std::vector<int64_t> before;  // sequences up to each row
  int64_t so_far = 0;
  for (const LengthCount& r : lengths_.rows) before.push_back(so_far += r.count);
  const double fit = kDraws * lengths_.mean() / static_cast<double>(seq);
  const auto windows = static_cast<size_t>(std::clamp<double>(fit, kLeastWindows, kMostWindows));
  const RngKey key{kSlowestRankSeed, hash_name("plan/windows")};
  std::vector<double> out;
  int64_t filled = 0, left = 0;  // of the window, of the sequence
  double pairs = 0;
  for (uint64_t draw = 0; out.size() < windows;) {
    if (left == 0) {
      const auto at = static_cast<int64_t>(
          static_cast<unsigned __int128>(random_u64(key, draw++)) * static_cast<uint64_t>(lengths_.sequences) >> 64);
      left = lengths_.rows[static_cast<size_t>(std::upper_bound(before.begin(), before.end(), at) - before.begin())]
                 .length;
    }
    const int64_t piece = std::min(left, seq - filled);
    pairs += static_cast<double>(attended_pairs(a, piece));
    filled += piece, left -= piece;
    if (filled == seq) out.push_back(pairs), filled = 0, pairs = 0;
  }
  return out;
}

SlowestRank WindowMix::slowest(const AttentionSpec& a, int64_t seq, int64_t ranks, int64_t windows) const {
  if (ranks <= 1 || batching_ == Batching::padded) return {};
  const Kind kind{a.causal, a.window, seq};
  const std::lock_guard lock(mutex_);
  const auto [known, is_new] = known_.try_emplace({kind, ranks, windows});
  if (!is_new) return known->second;
  std::vector<std::vector<double>>& sums = sums_[kind];
  if (sums.empty()) sums.push_back(sample(kind));
  const auto [low, high] = std::minmax_element(sums[0].begin(), sums[0].end());
  if (*low == *high) return known->second;
  const auto pick = [](const std::vector<double>& from, RngKey key, uint64_t index) {
    return from[static_cast<size_t>(random_u64(key, index) % from.size())];
  };
  while (int64_t{1} << sums.size() <= windows) {
    const RngKey key{kSlowestRankSeed, hash_name("plan/sums") + sums.size()};
    const std::vector<double>& half = sums.back();
    std::vector<double> twice(half.size());
    for (uint64_t i = 0; i < twice.size(); ++i) twice[i] = pick(half, key, 2 * i) + pick(half, key, 2 * i + 1);
    sums.push_back(std::move(twice));
  }
  // A rank's windows are those of the binary digits of their number.
  const RngKey key{kSlowestRankSeed, hash_name("plan/slowest") + static_cast<uint64_t>(ranks) * 0x9e3779b97f4a7c15u +
                                         static_cast<uint64_t>(windows)};
  const int64_t steps = std::max(kLeastSteps, kRankSums / ranks);
  // A quotient of two sums over steps, x the slowest and y the mean of a step's ranks.
  double x = 0, y = 0, xx = 0, xy = 0, yy = 0;
  uint64_t draw = 0;
  for (int64_t s = 0; s < steps; ++s) {
    double most = 0, all = 0;
    for (int64_t r = 0; r < ranks; ++r) {
      double own = 0;
      for (size_t digit = 0; digit < sums.size(); ++digit)
        if (windows >> digit & 1) own += pick(sums[digit], key, draw++);
      most = std::max(most, own), all += own;
    }
    const double mean = all / static_cast<double>(ranks);
    x += most, y += mean, xx += most * most, xy += most * mean, yy += mean * mean;
  }
  const double factor = x / y, residual = std::max(0.0, xx - 2 * factor * xy + factor * factor * yy);
  return known->second = {std::max(1.0, factor), std::sqrt(residual) / y, steps};
}

}  // namespace tern
