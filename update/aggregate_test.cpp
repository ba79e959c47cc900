#include "update/aggregate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <set>
#include <string>

#include "base/bug.h"
#include "base/rng.h"
#include "update/robust.h"

namespace tern {
namespace {

using Table = std::vector<std::vector<double>>;
using Rule = std::function<std::vector<double>(const Table&)>;

Vectors<double> views(const Table& rows) { return views_of(rows); }
double squared(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}
Table random_rows(uint64_t seed, int n, int length) {
  Table rows;
  for (int k = 0; k < n; ++k)
    for (int i = 0; i < length; ++i) {
      if (i == 0) rows.emplace_back();
      rows.back().push_back(random_normal({seed, static_cast<uint64_t>(k)}, static_cast<uint64_t>(i)));
    }
  return rows;
}

TEST(Aggregate, ClosedForms) {
  const Table line = {{0, 1}, {1, 1}, {2, 1}, {4, 1}, {100, -50}};
  EXPECT_EQ(mean_of(views(line)), (std::vector<double>{107.0 / 5, -46.0 / 5}));
  EXPECT_EQ(coordinate_median(views(line)), (std::vector<double>{2, 1}));
  EXPECT_EQ(coordinate_median(views({{0}, {1}, {2}, {9}})), (std::vector<double>{1.5}));
  EXPECT_EQ(trimmed_mean(views(line), 1), (std::vector<double>{7.0 / 3, 1}));
  EXPECT_EQ(trimmed_mean(views(line), 0), mean_of(views(line)));
  EXPECT_EQ(trimmed_mean(views(line), 2), coordinate_median(views(line)));
  EXPECT_EQ(krum(views(line), 1), (std::vector<double>{1, 1})) << "two nearest: 1 + 1, against 1 + 4, 1 + 4, 4 + 9";
  EXPECT_EQ(krum(views({{3}, {3}, {3}, {7}, {7}}), 1), (std::vector<double>{3})) << "of equals the first";
  // A triangle of equal sides: its centre. A heavy point keeps the median.
  const double h = std::sqrt(3.0);
  const std::vector<double> centre = geometric_median(views({{0, 0}, {2, 0}, {1, h}}));
  EXPECT_NEAR(centre[0], 1, 1e-9);
  EXPECT_NEAR(centre[1], h / 3, 1e-9);
  EXPECT_NEAR(geometric_median(views({{5}, {5}, {5}, {0}, {9}}))[0], 5, 1e-9);
  const std::vector<double> zero = {0};
  // From 0 with radius 1: 0.5 and two of length 1, one against the other two.
  EXPECT_EQ(centred_clipping(views({{0.5}, {3}, {-7}}), std::span<const double>(zero), {.radius = 1, .steps = 1}),
            (std::vector<double>{0.5 / 3}));
  EXPECT_EQ(centred_clipping(views({{1}, {2}, {6}}), std::span<const double>(zero), {.radius = 100, .steps = 1}),
            (std::vector<double>{3}));
  // Each of three near ones takes them all; the far one takes itself and its two nearest.
  const Table mixed = nearest_neighbour_mixing(views({{0}, {1}, {2}, {10}}), 1);
  EXPECT_EQ(mixed, (Table{{1}, {1}, {1}, {13.0 / 3}}));
}

TEST(Aggregate, BucketsAreAPermutationThatSeedAndStepKey) {
  Table rows;
  for (int k = 0; k < 11; ++k) rows.push_back({std::pow(2.0, k)});
  const auto sums = [&](uint64_t seed, uint64_t step) {
    Table buckets = bucketing(views(rows), 3, seed, step);
    EXPECT_EQ(buckets.size(), 4u);
    for (size_t b = 0; b < buckets.size(); ++b) buckets[b][0] *= b == 3 ? 2 : 3;
    return buckets;
  };
  double all = 0;
  for (const auto& bucket : sums(1, 5)) all += bucket[0];
  EXPECT_NEAR(all, 2047, 1e-9) << "every worker once";
  EXPECT_EQ(sums(1, 5), sums(1, 5));
  std::set<Table> seen;
  for (uint64_t step = 0; step < 10; ++step) seen.insert(sums(1, step)), seen.insert(sums(2, step));
  EXPECT_GT(seen.size(), 15u);
  std::vector<int> first(11);  // every worker comes first in its turn
  for (uint64_t step = 0; step < 400; ++step) {
    const Table alone = bucketing(views(rows), 1, 7, step);
    for (int k = 0; k < 11; ++k) first[static_cast<size_t>(k)] += alone[0][0] == std::pow(2.0, k);
  }
  for (const int count : first) EXPECT_GT(count, 12);
}

TEST(Aggregate, WorkersInAnyOrderGiveTheSame) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    Table rows = random_rows(seed, 9, 6);
    const auto median = coordinate_median(views(rows)), trimmed = trimmed_mean(views(rows), 2),
               middle = geometric_median(views(rows)), one = krum(views(rows), 2);
    for (uint64_t turn = 0; turn < 5; ++turn) {
      for (size_t left = rows.size(); left > 1; --left)
        std::swap(rows[left - 1], rows[random_u64({seed, turn}, left) % left]);
      EXPECT_EQ(coordinate_median(views(rows)), median);
      EXPECT_EQ(trimmed_mean(views(rows), 2), trimmed);
      EXPECT_EQ(krum(views(rows), 2), one);
      EXPECT_LE(squared(geometric_median(views(rows)), middle), 1e-24);
    }
  }
}

// Vectors cut over ranks: coordinates by themselves, choices by distances that add up.
TEST(Aggregate, PartsOfVectorsGiveTheWhole) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const Table rows = random_rows(seed, 8, 10);
    const auto part = [&](size_t begin, size_t end) {
      Vectors<double> views;
      for (const auto& row : rows) views.push_back(std::span(row).subspan(begin, end - begin));
      return views;
    };
    std::vector<double> whole = squared_distances(part(0, 10)), sum = squared_distances(part(0, 3));
    const std::vector<double> rest = squared_distances(part(3, 10));
    for (size_t i = 0; i < sum.size(); ++i) EXPECT_NEAR(sum[i] += rest[i], whole[i], 1e-12 * whole[i]);
    EXPECT_EQ(krum_choice(sum, 2), krum_choice(whole, 2));
    EXPECT_EQ(nearest_neighbours(sum, 2), nearest_neighbours(whole, 2));
    std::vector<double> joined = trimmed_mean(part(0, 3), 2);
    const std::vector<double> tail = trimmed_mean(part(3, 10), 2);
    joined.insert(joined.end(), tail.begin(), tail.end());
    EXPECT_EQ(joined, trimmed_mean(part(0, 10), 2));
  }
}

// An adversary: the good vectors are known to it, and it searches for what makes `error_of` largest. Tried are all bad workers at one point
// along some directions and lengths, both ways, numbers that are not finite, and then steps around the best.
double worst_error(const std::function<double(const std::vector<double>&)>& error_of, const Table& good,
                   uint64_t seed) {
  const size_t length = good[0].size();
  const std::vector<double> middle = mean_of(views(good));
  double spread = 0;
  for (const auto& g : good) spread += squared(g, middle) / static_cast<double>(good.size());
  double worst = 0;
  std::vector<double> best = middle;
  const auto attempt = [&](const std::vector<double>& sent) {
    if (const double r = error_of(sent); r > worst) worst = r, best = sent;
  };
  const auto survives = [&](const std::vector<double>& sent) {  // not a point to search around
    const double r = error_of(sent);
    if (!(r <= worst)) worst = std::isnan(r) ? INFINITY : r;
  };
  const double root = std::sqrt(spread);
  for (uint64_t d = 0; d < 4 + good.size(); ++d) {
    std::vector<double> way(length);
    for (size_t i = 0; i < length; ++i)
      way[i] = d < good.size() ? good[d][i] - middle[i] : root * random_normal({seed, 900 + d}, i);
    for (const double far : {-1e3, -3.0, -1.5, -1.0, -0.5, 0.5, 1.0, 1.5, 3.0, 1e3}) {
      std::vector<double> sent = middle;
      for (size_t i = 0; i < length; ++i) sent[i] += far * way[i];
      attempt(sent);
    }
  }
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double garbage : {std::nan(""), -kInfinity, kInfinity, 1e300, -1e300}) {
    survives(std::vector<double>(length, garbage));
    std::vector<double> sent = middle;
    sent.back() = garbage;
    survives(sent);
  }
  for (uint64_t turn = 0; turn < 20; ++turn) {
    std::vector<double> sent = best;
    for (size_t i = 0; i < length; ++i) sent[i] += 0.3 * root * random_normal({seed, 2000 + turn}, i);
    attempt(sent);
  }
  return worst;
}

// The good workers and f bad ones that all send the same, at both ends.
Table beside(const Table& good, int f, const std::vector<double>& sent) {
  Table all = good;
  for (int k = 0; k < f; ++k) all.insert(k % 2 ? all.end() : all.begin(), sent);
  return all;
}
// Mean squared distance from the mean.
double spread_of(const Table& rows) {
  const std::vector<double> middle = mean_of(views(rows));
  double spread = 0;
  for (const auto& row : rows) spread += squared(row, middle) / static_cast<double>(rows.size());
  return spread;
}
double worst_ratio(const Rule& rule, const Table& good, int f, uint64_t seed) {
  const std::vector<double> middle = mean_of(views(good));
  const double spread = spread_of(good);
  return worst_error(
      [&](const std::vector<double>& sent) { return squared(rule(beside(good, f, sent)), middle) / spread; }, good,
      seed);
}

struct Published {
  std::string name;
  Rule rule;
  double kappa;
};
// The rules that hold f of n, with the constants of the header; the geometric median with as many steps as a run does.
std::vector<Published> published(int n, int f) {
  const double share = static_cast<double>(f) / (n - 2 * f);
  return {{"trimmed mean", [f](const Table& x) { return trimmed_mean(views(x), f); }, 6 * share * (1 + share)},
          {"coordinate median", [](const Table& x) { return coordinate_median(views(x)); }, 4 * std::pow(1 + share, 2)},
          {"geometric median",
           [](const Table& x) { return geometric_median(views(x), {.steps = kMedianSteps, .smooth = 1e-9}); },
           4 * std::pow(1 + share, 2)},
          {"Krum", [f](const Table& x) { return krum(views(x), f); }, 6 * (1 + share)}};
}

TEST(Aggregate, ErrorsStayWithinThePublishedShareAndTheMeansDoNot) {
  double of_mean = 0;
  int sets = 0;
  for (const auto& [n, f] : {std::pair{5, 1}, {7, 2}, {9, 3}, {10, 1}, {11, 4}}) {
    const double behind = 8.0 * f / (n - f);
    std::vector<Published> rules = published(n, f);
    for (size_t k = 0; k < 2; ++k) {  // the two cheap ones behind the mixing; all in the slow test
      const int bad = f;
      const Rule rule = rules[k].rule;
      rules.push_back({rules[k].name + ", mixed",
                       [rule, bad](const Table& x) { return rule(nearest_neighbour_mixing(views(x), bad)); },
                       behind * (rules[k].kappa + 1)});
    }
    for (uint64_t seed = 1; seed <= 200; ++seed, ++sets) {
      const Table good = random_rows(seed * 100 + static_cast<uint64_t>(n), n - f, 1 + static_cast<int>(seed % 4));
      for (const Published& p : rules)
        ASSERT_LE(worst_ratio(p.rule, good, f, seed), p.kappa * (1 + 1e-6))
            << p.name << ", f " << f << " of " << n << ", seed " << seed;
      of_mean = std::max(of_mean, worst_ratio([](const Table& x) { return mean_of(views(x)); }, good, f, seed));
    }
  }
  EXPECT_EQ(sets, 1000);
  EXPECT_GT(of_mean, 1e4) << "the mean goes wherever one worker wants";
}

TEST(AggregateSlow, BehindTheMixingErrorsStayWithinItsShare) {
  for (const auto& [n, f] : {std::pair{5, 1}, {7, 2}, {9, 3}, {10, 1}, {11, 4}})
    for (const Published& p : published(n, f))
      for (uint64_t seed = 1; seed <= 200; ++seed) {
        if (p.name != "geometric median" && p.name != "Krum") continue;
        const int bad = f;
        const Table good = random_rows(seed * 100 + static_cast<uint64_t>(n), n - f, 1 + static_cast<int>(seed % 4));
        const Rule mixed = [&](const Table& x) { return p.rule(nearest_neighbour_mixing(views(x), bad)); };
        ASSERT_LE(worst_ratio(mixed, good, f, seed), 8.0 * f / (n - f) * (p.kappa + 1) * (1 + 1e-6))
            << p.name << ", f " << f << " of " << n << ", seed " << seed;
      }
}

// f bad workers spoil f buckets at most, so a rule of as many buckets is as near to the mean of those that are good as its constant for f of them
// says; which bucket is whose changes from set to set.
TEST(AggregateSlow, BehindBucketsErrorsStayWithinTheRulesShareOfTheGoodBuckets) {
  struct Dealt {
    int n, f, size;
  };
  for (const auto& [n, f, size] :
       {Dealt{12, 1, 2}, Dealt{13, 1, 3}, Dealt{16, 2, 2}, Dealt{22, 3, 2}, Dealt{15, 1, 3}}) {
    const int buckets = (n + size - 1) / size;
    for (const Published& p : published(buckets, f))
      for (uint64_t seed = 1; seed <= 200; ++seed) {
        const Table good = random_rows(seed * 100 + static_cast<uint64_t>(n), n - f, 1 + static_cast<int>(seed % 4));
        const Table whole = beside(good, f, good[0]);
        Table means;  // of as many buckets without a bad worker as there are for sure
        for (const std::vector<int>& bucket : deal_buckets(n, size, 3, seed)) {
          Table rows;
          bool clean = true;
          for (const int w : bucket) {
            rows.push_back(whole[static_cast<size_t>(w)]);
            clean = clean && w >= (f + 1) / 2 && w < n - f / 2;  // where `beside` puts the bad ones
          }
          if (clean && std::ssize(means) < buckets - f) means.push_back(mean_of(views(rows)));
        }
        ASSERT_EQ(std::ssize(means), buckets - f);
        const std::vector<double> middle = mean_of(views(means));
        const double spread = spread_of(means);
        const int bad = f, together = size;
        const double worst = worst_error(
            [&](const std::vector<double>& sent) {
              return squared(p.rule(bucketing(views(beside(good, bad, sent)), together, 3, seed)), middle) / spread;
            },
            good, seed);
        ASSERT_LE(worst, p.kappa * (1 + 1e-6))
            << p.name << ", f " << f << " of " << n << " in buckets of " << size << ", seed " << seed;
      }
  }
}

// τ and start as the header states, up to a tenth of the workers bad: within the published bound against the same adversary, which no one reaches;
// and one step never goes further than what the good ones and f times the radius can move it.
TEST(Aggregate, CentredClippingFromTheStatedStartStaysWithinItsBound) {
  int sets = 0;
  for (const auto& [n, f] : {std::pair{10, 1}, {11, 1}, {16, 1}, {20, 2}, {25, 2}})
    for (uint64_t seed = 1; seed <= 200; ++seed, ++sets) {
      const Table good = random_rows(seed * 100 + static_cast<uint64_t>(n), n - f, 1 + static_cast<int>(seed % 4));
      const std::vector<double> middle = mean_of(views(good));
      double apart = 0;
      for (const auto& a : good)
        for (const auto& b : good) apart = std::max(apart, squared(a, b));
      const std::vector<double> start = good[0];
      const double from = squared(start, middle), delta = static_cast<double>(f) / n;
      const double radius = std::sqrt(4 * (1 - delta) * (from / 3 + apart) / (std::sqrt(3.0) * delta));
      const int bad = f;
      const double worst = worst_error(
          [&](const std::vector<double>& sent) {
            return squared(centred_clipping(views(beside(good, bad, sent)), std::span<const double>(start),
                                            {.radius = radius, .steps = 1}),
                           middle);
          },
          good, seed);
      ASSERT_LE(worst, 29.1 * delta * from + 4000 * delta * apart) << "f " << f << " of " << n << ", seed " << seed;
      ASSERT_LE(std::sqrt(worst), delta * (radius + std::sqrt(from)) * (1 + 1e-9)) << "no good vector is cut";
    }
  EXPECT_EQ(sets, 1000);
}

TEST(Aggregate, RefusesWhatARuleDoesNotTake) {
  const Table rows = random_rows(1, 4, 3);
  EXPECT_THROW(trimmed_mean(views(rows), 2), Bug);
  EXPECT_THROW(krum(views(rows), 1), Bug);
  EXPECT_THROW(nearest_neighbour_mixing(views(rows), 2), Bug);
  EXPECT_THROW(mean_of(Vectors<double>{}), Bug);
  EXPECT_THROW(mean_of(views({{1, 2}, {1}})), Bug);
  EXPECT_THROW(bucketing(views(rows), 0, 1, 1), Bug);
  EXPECT_THROW(centred_clipping(views(rows), std::span<const double>(rows[0]).first(1), {}), Bug);
}

TEST(Aggregate, F32RoundsOnce) {
  const std::vector<float> a = {1, 2}, b = {3, 0x1p-24f};
  const Vectors<float> x = {a, b};
  EXPECT_EQ(mean_of(x), (std::vector<float>{2, static_cast<float>((2.0 + 0x1p-24) / 2)}));
}

}  // namespace
}  // namespace tern
