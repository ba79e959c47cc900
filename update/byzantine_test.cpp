// Learning beside attackers, in small: eight workers, of whom three send ALIE's vectors, at a fixed number of gradients. What Shi, Yang & Li 2024
// (arXiv:2305.13856) say of large batches shows here, with rates chosen for each.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "base/rng.h"
#include "update/aggregate.h"

namespace tern {
namespace {

constexpr int kInputs = 32, kHidden = 32, kClasses = 6, kHonest = 5, kAttackers = 3;
constexpr int64_t kGradients = 9600;  // of each worker, over all steps
constexpr double kBeta = 0.9, kDeviations = 1.5;

struct Sample {
  std::vector<double> x;
  int kind;
};
// Two clouds to a class, which overlap with others'.
std::vector<Sample> draw_samples(int count, uint64_t seed) {
  std::vector<Sample> all;
  for (int n = 0; n < count; ++n) {
    const auto at = static_cast<uint64_t>(n);
    const uint64_t cloud = random_u64({seed, 1}, at) % (2 * kClasses);
    Sample s{.x = {}, .kind = static_cast<int>(cloud % kClasses)};
    for (uint64_t i = 0; i < kInputs; ++i)
      s.x.push_back(0.5 * random_normal({1, 2}, cloud * kInputs + i) + random_normal({seed, 3}, at * kInputs + i));
    all.push_back(std::move(s));
  }
  return all;
}

// One hidden layer, tanh: W1 (hidden, inputs), b1, W2 (classes, hidden), b2, one after the other.
constexpr size_t kFirstBias = kHidden * kInputs, kOut = kFirstBias + kHidden, kOutBias = kOut + kClasses * kHidden,
                 kParameters = kOutBias + kClasses;

std::vector<double> first_parameters(uint64_t seed) {
  std::vector<double> w(kParameters);
  for (size_t i = 0; i < kParameters; ++i)
    w[i] = (i < kFirstBias ? 0.3 : i >= kOut && i < kOutBias ? 0.25 : 0) * random_normal({seed, 4}, i);
  return w;
}

// The logits; hidden: the layer's values.
std::vector<double> forward(const std::vector<double>& w, const Sample& s, std::vector<double>& hidden) {
  std::vector<double> logits(w.begin() + kOutBias, w.end());
  for (size_t h = 0; h < kHidden; ++h) {
    double sum = w[kFirstBias + h];
    for (size_t i = 0; i < kInputs; ++i) sum += w[h * kInputs + i] * s.x[i];
    hidden[h] = std::tanh(sum);
    for (size_t c = 0; c < kClasses; ++c) logits[c] += w[kOut + c * kHidden + h] * hidden[h];
  }
  return logits;
}
// g += scale times the gradient of -log p(kind).
void add_gradient(const std::vector<double>& w, const Sample& s, double scale, std::vector<double>& g) {
  std::vector<double> hidden(kHidden), p = forward(w, s, hidden);
  const double most = *std::ranges::max_element(p);
  double sum = 0;
  for (double& x : p) sum += x = std::exp(x - most);
  for (size_t c = 0; c < kClasses; ++c) p[c] = scale * (p[c] / sum - (static_cast<int>(c) == s.kind));
  for (size_t h = 0; h < kHidden; ++h) {
    double back = 0;
    for (size_t c = 0; c < kClasses; ++c) {
      back += p[c] * w[kOut + c * kHidden + h];
      g[kOut + c * kHidden + h] += p[c] * hidden[h];
    }
    back *= 1 - hidden[h] * hidden[h];
    g[kFirstBias + h] += back;
    for (size_t i = 0; i < kInputs; ++i) g[h * kInputs + i] += back * s.x[i];
  }
  for (size_t c = 0; c < kClasses; ++c) g[kOutBias + c] += p[c];
}
double accuracy(const std::vector<double>& w, const std::vector<Sample>& samples) {
  std::vector<double> hidden(kHidden);
  int right = 0;
  for (const Sample& s : samples) {
    const std::vector<double> logits = forward(w, s, hidden);
    right += std::ranges::max_element(logits) - logits.begin() == s.kind;
  }
  return static_cast<double>(right) / static_cast<double>(samples.size());
}

// What all attackers send: the honest mean, less so many standard deviations of each coordinate.
std::vector<double> alie_vector(const std::vector<std::vector<double>>& honest) {
  std::vector<double> sent(kParameters);
  for (size_t i = 0; i < kParameters; ++i) {
    double mean = 0, squares = 0;
    for (const auto& u : honest) mean += u[i] / kHonest;
    for (const auto& u : honest) squares += (u[i] - mean) * (u[i] - mean) / kHonest;
    sent[i] = mean - kDeviations * std::sqrt(squares);
  }
  return sent;
}

using AggregateRows = std::function<std::vector<double>(const Vectors<double>&)>;
struct Setting {
  AggregateRows aggregate;
  int batch;                // of each worker
  bool normalized = false;  // ByzSGDnm: steps as long as the rate says
};

double euclidean_norm(const std::vector<double>& x) {
  double squares = 0;
  for (const double v : x) squares += v * v;
  return std::sqrt(squares);
}

double accuracy_after(const Setting& s, double rate, uint64_t seed, const std::vector<Sample>& train,
                      const std::vector<Sample>& test) {
  std::vector<double> w = first_parameters(seed);
  std::vector<std::vector<double>> u(kHonest + kAttackers, std::vector<double>(kParameters));
  const int64_t steps = kGradients / s.batch;
  for (int64_t step = 0; step < steps; ++step) {
    const double keep = step == 0 ? 0 : kBeta;
    for (int k = 0; k < kHonest; ++k) {
      std::vector<double>& own = u[static_cast<size_t>(k)];
      for (double& x : own) x *= keep;
      for (int b = 0; b < s.batch; ++b) {
        const auto drawn = static_cast<uint64_t>((step * s.batch + b) * kHonest + k);
        add_gradient(w, train[random_u64({seed, 5}, drawn) % train.size()], (1 - keep) / s.batch, own);
      }
    }
    const std::vector<double> sent = alie_vector({u.begin(), u.begin() + kHonest});
    for (int k = 0; k < kAttackers; ++k) u[static_cast<size_t>(kHonest + k)] = sent;
    const std::vector<double> taken = s.aggregate(views_of(u));
    double now = rate * 0.5 * (1 + std::cos(3.14159265 * static_cast<double>(step) / static_cast<double>(steps)));
    if (s.normalized) now /= std::max(euclidean_norm(taken), 1e-12);
    for (size_t i = 0; i < kParameters; ++i) w[i] -= now * taken[i];
  }
  return accuracy(w, test);
}

// At the rate that is best for it.
double best_accuracy(const Setting& s, const std::vector<Sample>& train, const std::vector<Sample>& test) {
  double best = 0;
  for (const double rate : {0.03, 0.1, 0.3, 1.0}) best = std::max(best, accuracy_after(s, rate, 1, train, test));
  return best;
}

// Noise is what the attackers hide in. What normalized steps learn from small batches is printed: that it is more does not show at this size.
void expect_large_batches_learn_more(const std::string& name, const AggregateRows& aggregate) {
  const std::vector<Sample> train = draw_samples(4000, 11), test = draw_samples(2000, 12);
  const double small = best_accuracy({aggregate, 8}, train, test), middle = best_accuracy({aggregate, 32}, train, test),
               large = best_accuracy({aggregate, 128}, train, test),
               normalized = best_accuracy({aggregate, 8, true}, train, test);
  std::printf("%s: batches of 8, 32, 128: %.3f, %.3f, %.3f; of 8 with normalized steps: %.3f\n", name.c_str(), small,
              middle, large, normalized);
  EXPECT_GT(middle, small);
  EXPECT_GT(large, middle);
  EXPECT_GT(large, small + 0.01);
}

TEST(ByzantineSlow, KrumLearnsMoreFromLargeBatches) {
  expect_large_batches_learn_more("Krum",
                                  [](const Vectors<double>& x) { return krum(x, 2); });  // of eight it takes no more
}
TEST(ByzantineSlow, TheGeometricMedianLearnsMoreFromLargeBatches) {
  expect_large_batches_learn_more(
      "geometric median", [](const Vectors<double>& x) { return geometric_median(x, {.steps = 8, .smooth = 1e-9}); });
}
TEST(ByzantineSlow, TheMedianLearnsMoreFromLargeBatches) {
  expect_large_batches_learn_more("coordinate median", [](const Vectors<double>& x) { return coordinate_median(x); });
}

}  // namespace
}  // namespace tern
