#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "planner/instance/brute_force_test.h"
#include "planner/instance/random_instance.h"

namespace tern {
namespace {

RandomInstance searched_case(int seed) {
  return {.layers = 5 + seed % 4,
          .strategies = 3,
          .stages = 1 + seed % 3,
          .micro = 2 + seed % 6,
          .schedule = kPlainSchedules[seed / 3 % 3],
          .tails = seed % 2 == 0,
          .entries = seed % 3 == 0,
          .transients = seed % 4 == 0,
          .memory = 0.5};
}

int64_t value(const Instance& in) {
  const SearchResult r = search(in);
  EXPECT_EQ(r.simulator_gap(), 0);
  return r.found ? r.value_ps : INT64_MAX;
}

TEST(SearchProperties, MoreMemoryIsNeverWorse) {
  for (int seed = 0; seed < 60; ++seed) {
    Instance in = random_instance(searched_case(seed), static_cast<uint64_t>(seed));
    int64_t before = INT64_MAX;
    for (int step = 0; step < 4; ++step) {
      const int64_t now = value(in);
      EXPECT_LE(now, before) << "seed " << seed;
      before = now;
      for (auto& c : in.capacity) c[0] += c[0] / 8 + 10;
    }
  }
}

TEST(SearchProperties, FasterLinksAreNeverWorse) {
  for (int seed = 0; seed < 60; ++seed) {
    RandomInstance r = searched_case(seed);
    r.link = 300;
    Instance in = random_instance(r, static_cast<uint64_t>(seed));
    const int64_t before = value(in);
    for (auto& edges : in.across)
      for (EdgeCost& e : edges) e.forward /= 2, e.backward /= 3;
    EXPECT_LE(value(in), before) << "seed " << seed;
  }
}

TEST(SearchProperties, FewerStrategiesAreNeverBetter) {
  for (int seed = 0; seed < 60; ++seed) {
    Instance in = random_instance(searched_case(seed), static_cast<uint64_t>(seed));
    const int64_t all = value(in);
    // Without strategy 1 in any layer: rows 0 and 2 stay.
    const auto without = [](std::vector<EdgeCost> e) { return std::vector<EdgeCost>{e[0], e[2], e[6], e[8]}; };
    for (auto& row : in.cost) row.erase(row.begin() + 1);
    for (auto& e : in.within) e = without(e);
    for (auto& e : in.across) e = without(e);
    EXPECT_GE(value(in), all) << "seed " << seed;
  }
}

TEST(SearchProperties, NamesOfStrategiesDoNotMatter) {
  for (int seed = 0; seed < 60; ++seed) {
    const Instance in = random_instance(searched_case(seed), static_cast<uint64_t>(seed));
    Instance other = in;
    const int n = 3, order[] = {2, 0, 1};
    for (size_t u = 0; u < in.cost.size(); ++u) {
      for (int k = 0; k < n; ++k) other.cost[u][k] = in.cost[u][order[k]];
      if (u + 1 == in.cost.size()) continue;
      for (int k = 0; k < n; ++k)
        for (int l = 0; l < n; ++l) {
          other.within[u][k * n + l] = in.within[u][order[k] * n + order[l]];
          other.across[u][k * n + l] = in.across[u][order[k] * n + order[l]];
        }
    }
    EXPECT_EQ(value(other), value(in)) << "seed " << seed;
  }
}

// A layer cut in two, joined where both halves keep the strategy: the old assignments are still there.
TEST(SearchProperties, FinerLayersAreNeverWorse) {
  for (int seed = 0; seed < 60; ++seed) {
    RandomInstance r = searched_case(seed);
    r.layers = 5;
    r.entries = false;
    const Instance in = random_instance(r, static_cast<uint64_t>(seed));
    Instance finer = in;
    const size_t u = static_cast<size_t>(seed) % in.cost.size();
    auto &first = finer.cost[u], second = in.cost[u];
    for (size_t k = 0; k < first.size(); ++k) {
      const auto halve = [&](int64_t CostVector::*m) {
        first[k].*m = in.cost[u][k].*m / 2;
        second[k].*m = in.cost[u][k].*m - first[k].*m;
      };
      for (const auto m : {&CostVector::forward, &CostVector::backward, &CostVector::weight, &CostVector::recompute,
                           &CostVector::sync, &CostVector::update})
        halve(m);
      for (int t = 0; t < kTiers; ++t) {
        first[k].persistent[t] /= 2, first[k].held[t] /= 2;
        second[k].persistent[t] -= first[k].persistent[t], second[k].held[t] -= first[k].held[t];
      }
    }
    finer.cost.insert(finer.cost.begin() + static_cast<std::ptrdiff_t>(u) + 1, second);
    std::vector<EdgeCost> join(9, EdgeCost{100000, 100000});
    for (int k = 0; k < 3; ++k) join[k * 4] = {};
    finer.within.insert(finer.within.begin() + static_cast<std::ptrdiff_t>(u), join);
    for (EdgeCost& e : join) e = {5, 5};
    finer.across.insert(finer.across.begin() + static_cast<std::ptrdiff_t>(u), join);
    EXPECT_LE(value(finer), value(in)) << "seed " << seed;
  }
}

bool same(const SearchResult& a, const SearchResult& b) {
  return a.found == b.found && a.assignment == b.assignment && a.value_ps == b.value_ps &&
         a.makespan_ps == b.makespan_ps && a.bound_ps == b.bound_ps && a.model_ps == b.model_ps &&
         a.model_bound_ps == b.model_bound_ps && a.counts.labels == b.counts.labels &&
         a.counts.suffixes == b.counts.suffixes && a.counts.simulated == b.counts.simulated &&
         a.counts.rounds == b.counts.rounds;
}

TEST(SearchProperties, ThreadsChangeNothing) {
  for (int seed = 0; seed < 6; ++seed) {
    RandomInstance r = searched_case(seed);
    r.layers = 14 + seed;
    r.stages = 2 + seed % 4;
    const Instance in = random_instance(r, static_cast<uint64_t>(seed));
    const SearchResult one = search(in, {.simulations = 200});
    for (const int threads : {2, 3})
      EXPECT_TRUE(same(one, search(in, {.simulations = 200, .threads = threads}))) << "seed " << seed;
  }
}

TEST(SearchProperties, AnInterruptLeavesAValidPlanAndARightGap) {
  int with_gap = 0;
  for (int seed = 0; seed < 12; ++seed) {
    RandomInstance r = searched_case(seed);
    r.layers = 20;
    r.stages = 4;
    r.strategies = 4;
    const Instance in = random_instance(r, static_cast<uint64_t>(seed));
    const SearchResult whole = search(in);
    ASSERT_TRUE(whole.found);
    for (const double seconds : {0.0, 0.0005, 0.002, 0.01}) {
      const SearchResult cut = search(in, {.seconds = seconds});
      ASSERT_TRUE(cut.found);
      const Priced p = price(in, cut.assignment);
      EXPECT_TRUE(p.fits());
      EXPECT_EQ(p.makespan, cut.value_ps);
      EXPECT_LE(cut.bound_ps, whole.value_ps);  // the gap covers what a longer search found
      EXPECT_LE(cut.model_bound_ps, whole.model_ps);
      EXPECT_GE(cut.value_ps, whole.bound_ps);
      with_gap += cut.interrupted && cut.simulator_gap() > 0;
    }
  }
  EXPECT_GT(with_gap, 10);
}

TEST(SearchProperties, AStopFlagEndsTheSearch) {
  const Instance in = random_instance({.layers = 30, .strategies = 5, .stages = 4, .micro = 8}, 7);
  const std::atomic<bool> stop{true};
  const SearchResult r = search(in, {.stop = &stop});
  EXPECT_TRUE(r.interrupted);
  EXPECT_TRUE(r.found);
  EXPECT_GT(r.simulator_gap(), 0);
}

TEST(SearchProperties, AnUpperBoundPrunesAndOnlyThat) {
  for (int seed = 0; seed < 30; ++seed) {
    const Instance in = random_instance(searched_case(seed), static_cast<uint64_t>(seed));
    const SearchResult whole = search(in);
    if (!whole.found) continue;
    const SearchResult none = search(in, {.upper_bound = whole.value_ps});
    EXPECT_FALSE(none.found) << "seed " << seed;
    EXPECT_GE(none.bound_ps, whole.value_ps) << "seed " << seed;
    const SearchResult some = search(in, {.upper_bound = whole.value_ps + 1});
    ASSERT_TRUE(some.found) << "seed " << seed;
    EXPECT_EQ(some.value_ps, whole.value_ps);
    EXPECT_LE(quick_bound(in), whole.value_ps);
  }
}

// Where memory binds, equal layers take different strategies: recomputation in some, not in others.
TEST(SearchProperties, EqualLayersTakeDifferentStrategiesWhereMemoryBinds) {
  CostVector keep{.forward = 100, .backward = 200, .persistent = {10}, .held = {10}};
  CostVector recompute = keep;
  recompute.recompute = 100;
  recompute.held[0] = 1;
  Instance in{.num_stages = 2,
              .num_micro = 8,
              .cost = std::vector<std::vector<CostVector>>(8, {keep, recompute}),
              .within = std::vector<std::vector<EdgeCost>>(7, std::vector<EdgeCost>(4)),
              .across = std::vector<std::vector<EdgeCost>>(7, std::vector<EdgeCost>(4)),
              .capacity = {{85}, {85}},
              .layer_class = std::vector<int>(8, 0)};
  const SearchResult r = search(in);
  ASSERT_TRUE(r.found);
  EXPECT_EQ(r.value_ps, brute_force(in).value);
  const int recomputed = std::accumulate(r.assignment.strategy.begin(), r.assignment.strategy.begin() + 4, 0);
  EXPECT_GT(recomputed, 0);
  EXPECT_LT(recomputed, 4);
}

TEST(SearchErrors, TablesThatDoNotFitTogetherAreNamed) {
  const Instance good = random_instance({}, 1);
  const auto broken = [&](auto&& change) {
    Instance in = good;
    change(in);
    try {
      search(in);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::usage);
      return std::string(e.what());
    }
    return std::string("no error");
  };
  EXPECT_NE(broken([](Instance& in) { in.within[0].pop_back(); }).find("within of layer 0"), std::string::npos);
  EXPECT_NE(broken([](Instance& in) { in.across.pop_back(); }).find("across has"), std::string::npos);
  EXPECT_NE(broken([](Instance& in) { in.cost[1].clear(); }).find("layer 1 has no strategy"), std::string::npos);
  EXPECT_NE(broken([](Instance& in) { in.cost[2][0].forward = -1; }).find("layer 2 has a negative"), std::string::npos);
  EXPECT_NE(broken([](Instance& in) {
              in.num_stages = 9;
              in.capacity.resize(9);
            }).find("6 layers for 9 stages"),
            std::string::npos);
  EXPECT_NE(broken([](Instance& in) { in.capacity.pop_back(); }).find("1 capacities, expected 2"), std::string::npos);
  EXPECT_NE(broken([](Instance& in) { in.chunks_per_stage = 2; }).find("2 chunks: schedule 1f1b has one"),
            std::string::npos);
}

}  // namespace
}  // namespace tern
