// Llama 3's rotary scaling as the table of divisors that GGUF holds, and back.
#include "formats/gguf/rope.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "formats/gguf/families.h"

namespace tern {
namespace {

constexpr double kTwoPi = 2 * std::numbers::pi;

// The divisors between 1 and the factor lie on a line over the frequencies: 1/divisor = (1-s)/factor + s with
// s = (original·f/2π - low)/(high - low). Only ratios of original, low and high show; low is taken as 1.
std::vector<HfRope> llama3_guesses(const std::vector<float>& divisors, double theta) {
  const double factor = std::stod(fmt::format("{}", *std::max_element(divisors.begin(), divisors.end())));
  std::vector<HfRope> guesses;
  const auto add = [&](double original, double high) {
    if (!(original >= 1) || !(original < 1e9) || !(high > 1)) return;
    HfRope r{.type = RopeType::llama3, .theta = theta, .factor = factor};
    r.original_max_position_embeddings = std::llround(original);
    r.low_freq_factor = 1;
    r.high_freq_factor = high;
    guesses.push_back(r);
  };
  if (!(factor > 1)) return guesses;
  std::vector<std::pair<double, double>> points;  // frequency, s
  for (size_t i = 0; i < divisors.size(); ++i) {
    const double s = (1.0 / static_cast<double>(divisors[i]) - 1 / factor) / (1 - 1 / factor);
    if (s > 1e-4 && s < 1 - 1e-4)
      points.emplace_back(std::pow(theta, -static_cast<double>(i) / static_cast<double>(divisors.size())), s);
  }
  if (points.size() >= 2) {
    const auto [f0, s0] = points.front();
    const auto [f1, s1] = points.back();
    const double slope = (s1 - s0) / (f1 - f0), at_zero = s0 - slope * f0, span = -1 / at_zero;
    const double high = std::round((1 + span) * 1000) / 1000;
    add(slope * kTwoPi * (high - 1), high);
  }
  // One divisor on the line: as Llama 3 has low and high, 1 and 4.
  if (!points.empty()) add((1 + 3 * points[0].second) * kTwoPi / points[0].first, 4);
  for (const double original : {8192.0, 4096.0, 2048.0, 16384.0}) add(original, 4);
  return guesses;
}

}  // namespace

std::vector<float> gguf_rope_divisors(const HfConfig& c) {
  std::vector<float> divisors;
  if (c.rope.type != RopeType::llama3) return divisors;
  const double factor = c.rope.factor.value_or(1), low = c.rope.low_freq_factor, high = c.rope.high_freq_factor;
  const auto original = static_cast<double>(c.rope.original_max_position_embeddings);
  for (int64_t i = 0; i < c.head_dim / 2; ++i) {
    const double frequency = std::pow(c.rope.theta, -2 * static_cast<double>(i) / static_cast<double>(c.head_dim));
    const double wave = kTwoPi / frequency;
    const double s = std::clamp((original / wave - low) / (high - low), 0.0, 1.0);
    divisors.push_back(static_cast<float>(1 / ((1 - s) / factor + s)));
  }
  return divisors;
}

std::optional<HfRope> llama3_rope_of(const std::vector<float>& divisors, double theta) {
  HfConfig c;
  c.head_dim = 2 * static_cast<int64_t>(divisors.size());
  for (const HfRope& guess : llama3_guesses(divisors, theta)) {
    c.rope = guess;
    const std::vector<float> got = gguf_rope_divisors(c);
    bool same = true;
    for (size_t i = 0; i < got.size(); ++i) same = same && std::abs(got[i] - divisors[i]) <= 2e-6f * divisors[i];
    if (same) return guess;
  }
  return {};
}

}  // namespace tern
