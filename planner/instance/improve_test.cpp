// Local improvement, judged by every move of a single layer, priced one by one.
#include "planner/instance/improve.h"

#include <gtest/gtest.h>

#include "planner/instance/local_optimum_testing.h"
#include "planner/instance/random_instance.h"
#include "planner/instance/search.h"

namespace tern {
namespace {

RandomInstance case_of(int seed) {
  const PipelineSchedule schedule = kPipelineSchedules[static_cast<size_t>(seed) % kPipelineSchedules.size()];
  RandomInstance r{
      .layers = 7 + seed % 5, .strategies = 1 + seed % 4, .stages = 1 + seed / 7 % 3, .micro = 4 + seed % 3};
  if (traits_of(schedule).chunks != ChunkRule::one) r.chunks = 2, r.stages = 2, r.micro = 4;
  r.schedule = r.stages == 1 ? kOneStageSchedule : schedule;
  if (r.stages == 1) r.chunks = 1;
  r.tails = seed % 2, r.entries = seed % 3 == 0, r.transients = seed % 4 == 0;
  r.split = splits_backward(r.schedule), r.memory = 0.3 + 0.1 * (seed % 5);
  return r;
}

TEST(Improve, NoMoveOfASingleLayerIsFaster) {
  int improved = 0, judged = 0;
  for (int seed = 0; seed < 120; ++seed) {
    const Instance in = random_instance(case_of(seed), static_cast<uint64_t>(seed));
    const SearchResult first = search(in, {.simulations = 0, .labels = 50});
    if (!first.found) continue;
    const Improved better = improve(in, first.assignment);
    ASSERT_TRUE(better.complete) << "seed " << seed;
    const Priced p = price(in, better.assignment);
    EXPECT_TRUE(p.fits()) << "seed " << seed;
    EXPECT_EQ(p.makespan, better.makespan) << "seed " << seed;
    EXPECT_LE(better.makespan, first.makespan_ps) << "seed " << seed;
    EXPECT_EQ(faster_single_move(in, better.assignment), "") << "seed " << seed;
    improved += better.makespan < first.makespan_ps, ++judged;
  }
  EXPECT_GE(judged, 60);
  EXPECT_GE(improved, 10);  // else the test could not fail
}

// Counts end it at the same place everywhere, and what it has by then is no slower than what it was given.
TEST(Improve, EndsByCountedOperations) {
  int judged = 0;
  for (int seed = 0; seed < 120; ++seed) {
    const Instance in = random_instance(case_of(seed), static_cast<uint64_t>(seed));
    const SearchResult first = search(in, {.simulations = 0, .labels = 50});
    if (!first.found) continue;
    const Improved all = improve(in, first.assignment);
    if (all.taken < 2) continue;
    const Improved none = improve(in, first.assignment, {.operations = 0});
    EXPECT_FALSE(none.complete) << "seed " << seed;
    EXPECT_EQ(none.assignment, first.assignment) << "seed " << seed;
    // One simulation prices what is given, and the second takes a move at best.
    const int64_t each = int64_t{3} * in.num_stages * in.chunks_per_stage * in.num_micro;
    const Improved some = improve(in, first.assignment, {.operations = 2 * each});
    EXPECT_FALSE(some.complete) << "seed " << seed;
    EXPECT_LE(some.taken, 1) << "seed " << seed;
    EXPECT_LT(some.tried, all.tried) << "seed " << seed;
    EXPECT_LE(all.makespan, some.makespan) << "seed " << seed;
    EXPECT_LE(some.makespan, first.makespan_ps) << "seed " << seed;
    ++judged;
  }
  EXPECT_GE(judged, 5);
}

// What is said to be slower without a simulation is slower.
TEST(Improve, ABoundedPriceIsThePrice) {
  for (int seed = 0; seed < 60; ++seed) {
    const Instance in = random_instance(case_of(seed), static_cast<uint64_t>(seed));
    const SearchResult r = search(in, {.simulations = 0, .labels = 50});
    if (!r.found) continue;
    Pricer pricer(in);
    EXPECT_EQ(pricer.below(r.assignment, r.makespan_ps), std::nullopt);
    const std::optional<Priced> p = pricer.below(r.assignment, r.makespan_ps + 1);
    ASSERT_TRUE(p) << "seed " << seed;
    EXPECT_EQ(p->makespan, r.makespan_ps);
  }
}

}  // namespace
}  // namespace tern
