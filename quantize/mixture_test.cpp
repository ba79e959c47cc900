// The choice of types against all choices there are, and what it does where no mixture is.
#include "quantize/mixture.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "base/rng.h"

namespace tern {
namespace {

std::vector<MixtureItem> random_items(size_t count, size_t types, int64_t unit, uint64_t seed) {
  std::vector<MixtureItem> items(count);
  uint64_t at = 0;
  const RngKey key{seed, hash_name("mixture")};
  const auto draw = [&] { return static_cast<int64_t>(random_u64(key, at++) >> 40); };  // 24 bits
  for (MixtureItem& item : items)
    for (size_t t = 0; t < types; ++t) {
      item.bytes.push_back(unit * (1 + draw() % 90));
      item.cost.push_back(static_cast<double>(draw()) / (1 << 24));
    }
  return items;
}

struct Total {
  int64_t bytes = 0;
  double cost = 0;
};
Total total_of_choice(const std::vector<MixtureItem>& items, const std::vector<int>& choice) {
  Total sum;
  for (size_t i = 0; i < items.size(); ++i)
    sum.bytes += items[i].bytes[static_cast<size_t>(choice[i])],
        sum.cost += items[i].cost[static_cast<size_t>(choice[i])];
  return sum;
}

// The least cost of all mixtures; infinite: there is none.
double least_cost(const std::vector<MixtureItem>& items, int64_t least, int64_t most) {
  const auto types = static_cast<int>(items.front().bytes.size());
  std::vector<int> choice(items.size(), 0);
  double best = INFINITY;
  for (;;) {
    const Total sum = total_of_choice(items, choice);
    if (sum.bytes >= least && sum.bytes <= most) best = std::min(best, sum.cost);
    size_t i = 0;
    while (i < choice.size() && ++choice[i] == types) choice[i++] = 0;
    if (i == choice.size()) return best;
  }
}

TEST(Mixture, IsTheBestOfAllWhereEverySumOfBytesIsKept) {
  int found = 0, none = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    const std::vector<MixtureItem> items = random_items(6, 3, 1, seed);
    for (const auto& [least, most] :
         {std::pair<int64_t, int64_t>{0, 1000}, {150, 200}, {297, 300}, {0, 60}, {520, 530}}) {
      const double want = least_cost(items, least, most);
      const std::optional<std::vector<int>> choice = choose_mixture(items, least, most);
      // A sum keeps its cheapest way only, so that the band's edges cut nothing off.
      ASSERT_EQ(choice.has_value(), std::isfinite(want)) << "seed " << seed << ", " << least << " to " << most;
      if (!choice) {
        ++none;
        continue;
      }
      ++found;
      const Total sum = total_of_choice(items, *choice);
      EXPECT_GE(sum.bytes, least);
      EXPECT_LE(sum.bytes, most);
      EXPECT_NEAR(sum.cost, want, 1e-12) << "seed " << seed << ", " << least << " to " << most;
    }
  }
  EXPECT_GT(found, 100);
  EXPECT_GT(none, 10);
}

TEST(Mixture, KeepsToTheBandAndNearTheBestWhereSumsAreThinned) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const std::vector<MixtureItem> items = random_items(8, 3, 100'003, seed);
    const int64_t most = 35 * 8 * 100'003, least = most - most / 50;
    const double want = least_cost(items, least, most);
    const std::optional<std::vector<int>> choice = choose_mixture(items, least, most);
    ASSERT_EQ(choice.has_value(), std::isfinite(want)) << seed;
    if (!choice) continue;
    const Total sum = total_of_choice(items, *choice);
    EXPECT_GE(sum.bytes, least);
    EXPECT_LE(sum.bytes, most);
    EXPECT_LE(sum.cost, want * 1.01) << seed;
  }
}

TEST(Mixture, MoreRoomIsNeverDearer) {
  const std::vector<MixtureItem> items = random_items(40, 5, 1, 9);
  double before = INFINITY;
  for (int64_t most = 400; most <= 4000; most += 50)
    if (const std::optional<std::vector<int>> choice = choose_mixture(items, 0, most)) {
      const double cost = total_of_choice(items, *choice).cost;
      EXPECT_LE(cost, before) << most;
      before = cost;
    }
  EXPECT_TRUE(std::isfinite(before));
}

}  // namespace
}  // namespace tern
