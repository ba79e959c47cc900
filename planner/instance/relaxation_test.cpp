#include <gtest/gtest.h>

#include <map>

#include "planner/instance/brute_force_test.h"
#include "planner/instance/cut_bound_impl.h"
#include "planner/instance/kept_strategies_impl.h"
#include "planner/instance/relaxation_impl.h"
#include "planner/outer/mixed_instance_test.h"

namespace tern {
namespace {

// Every assignment that fits, through the simulator: none is below the bound, and none that uses a strategy is below
// what the relaxation says of that strategy.
TEST(Relaxation, IsBelowEveryAssignmentThatFits) {
  int found = 0, tight = 0;
  double sum = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const Instance in = random_instance(mixed_instance(seed), seed);
    const Chain chain = make_chain(in, Objective::simulated);
    const CutBound cut = cut_bound(chain, kNever, 12);
    Relaxation relaxation(chain);
    relaxation.set_dear(cut.dear);
    const double least = relaxation.least(cut.weights, cut.mu);
    const auto with = relaxation.with_each_strategy();
    Pricer price(in);
    int64_t best = kNever;
    std::map<std::pair<int, int>, int64_t> best_with;
    for_each_assignment(in, [&](const Assignment& a) {
      const Priced p = price(a);
      if (!p.fits()) return;
      best = std::min(best, p.makespan);
      for (int u = 0; u < in.num_layers(); ++u) {
        auto& x = best_with.try_emplace({chain.form[u], a.strategy[u]}, kNever).first->second;
        x = std::min(x, p.makespan);
      }
    });
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << name_of(in.schedule));
    ASSERT_GE(least + 1, 0.999999 * static_cast<double>(cut.bound));
    if (best == kNever) continue;
    ++found;
    EXPECT_LE(cut.bound, best);
    EXPECT_LE(mean_bound(chain), cut.bound);
    tight += cut.bound >= best - 2;
    sum += static_cast<double>(cut.bound) / static_cast<double>(best);
    for (const auto& [key, makespan] : best_with) {
      const double bound = with[static_cast<size_t>(key.first)][static_cast<size_t>(key.second)];
      // A strategy that another one dominates has no row of its own.
      if (bound < 1e299) {
        EXPECT_LE(bound, static_cast<double>(makespan) * (1 + 1e-9) + 1) << key.first << " " << key.second;
      }
    }
  }
  EXPECT_GT(found, 250);
  EXPECT_GT(sum / found, 0.8);
  RecordProperty("mean_share", std::to_string(sum / found));
  std::printf("%d feasible, %d tight, mean bound / optimum %.4f\n", found, tight, sum / found);
}

// What is left out is in no assignment below the limit: the search finds the optimum among what is kept.
TEST(Relaxation, KeepsTheStrategiesOfTheOptimum) {
  int compared = 0, dropped = 0;
  for (uint64_t seed = 0; seed < 240; ++seed) {
    RandomInstance r = mixed_instance(seed);
    r.memory = 0.4 + 0.1 * static_cast<double>(seed % 4);
    const Instance in = random_instance(r, seed);
    const BruteForce want = brute_force(in);
    if (!want.found) continue;
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << name_of(in.schedule));
    const Kept kept = strategies_below(in, want.value + 1, 12);
    ASSERT_LE(kept.bound, want.value);
    for (size_t u = 0; u < in.cost.size(); ++u) dropped += kept.strategy[u].size() < in.cost[u].size();
    const SearchResult got = search(kept.instance, {.upper_bound = want.value + 1});
    ASSERT_TRUE(got.found);
    EXPECT_EQ(got.value_ps, want.value);
    const Priced p = price(in, kept.whole(got.assignment));
    EXPECT_TRUE(p.fits());
    EXPECT_EQ(p.makespan, want.value);
    ++compared;
  }
  EXPECT_GT(compared, 150);
  EXPECT_GT(dropped, 50);
}

}  // namespace
}  // namespace tern
