#include "planner/baselines/baselines.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "planner/instance/brute_force_test.h"
#include "planner/instance/random_instance.h"

namespace tern {
namespace {

RandomInstance baseline_case(int seed) {
  return {.layers = 6,
          .strategies = 3,
          .stages = 1 + seed % 3,
          .micro = 2 + seed % 5,
          .schedule = seed % 2 == 0 ? PipelineSchedule::one_f_one_b : PipelineSchedule::gpipe,
          .tails = seed % 3 == 0,
          .memory = 0.9};
}

TEST(Baselines, NoneIsBetterThanTheSearch) {
  int beaten = 0, found = 0;
  for (int seed = 0; seed < 60; ++seed) {
    const Instance in = random_instance(baseline_case(seed), static_cast<uint64_t>(seed));
    const SearchResult best = search(in);
    const Baseline all = exhaustive(in);
    ASSERT_EQ(all.found, best.found);
    if (!best.found) continue;
    EXPECT_EQ(all.makespan_ps, best.value_ps);
    for (const Baseline& b : {uniform_even(in), uniap(in), random_valid(in, 200, 1)}) {
      if (!b.found) continue;
      ++found;
      EXPECT_EQ(price(in, b.assignment).makespan, b.makespan_ps);
      EXPECT_GE(b.makespan_ps, best.value_ps);
      beaten += b.makespan_ps > best.value_ps;
    }
  }
  EXPECT_GT(found, 100);
  EXPECT_GT(beaten, 60);
}

TEST(Baselines, FixedStagesAreKeptAndNeverBetter) {
  for (int seed = 0; seed < 40; ++seed) {
    const Instance in = random_instance(baseline_case(seed), static_cast<uint64_t>(seed));
    const SearchResult whole = search(in);
    const SearchResult even = search(fix_stages(in, even_layer_counts(in)));
    // Brute force over the even split.
    int64_t want = INT64_MAX;
    std::vector<int> stage;
    for (const int n : even_layer_counts(in)) stage.insert(stage.end(), n, stage.empty() ? 0 : stage.back() + 1);
    Pricer price(in);
    for_each_assignment(in, [&](const Assignment& a) {
      if (a.stage != stage) return;
      if (const Priced p = price(a); p.fits()) want = std::min(want, p.makespan);
    });
    if (want == INT64_MAX) continue;
    ASSERT_TRUE(even.found);
    EXPECT_EQ(even.assignment.stage, stage);
    EXPECT_EQ(even.value_ps, want) << "seed " << seed;
    EXPECT_GE(even.value_ps, whole.value_ps);
  }
}

TEST(Baselines, KeptStrategiesAreThoseOfTheWhole) {
  const int kept[] = {2, 0};
  for (int seed = 0; seed < 40; ++seed) {
    const Instance in = random_instance(baseline_case(seed), static_cast<uint64_t>(seed));
    const SearchResult r = search(keep_strategies(in, kept));
    if (!r.found) continue;
    Assignment a = r.assignment;
    for (int& k : a.strategy) k = kept[k];
    EXPECT_EQ(price(in, a).makespan, r.value_ps);
    EXPECT_GE(r.value_ps, search(in).value_ps);
  }
}

TEST(Baselines, SayWhatTheyCannotDo) {
  const Instance in = random_instance({.layers = 60, .strategies = 3, .stages = 2}, 1);
  EXPECT_THROW(exhaustive(in), Error);
  const int layers[] = {1, 2};
  EXPECT_THROW(fix_stages(in, layers), Error);
  const int kept[] = {7};
  EXPECT_THROW(keep_strategies(in, kept), Error);
}

}  // namespace
}  // namespace tern
