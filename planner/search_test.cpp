#include "planner/search.h"

#include <gtest/gtest.h>

#include "planner/brute_force_test.h"
#include "planner/random_instance.h"

namespace tern {
namespace {

struct Tally {
  int found = 0, infeasible = 0, restricted = 0;
};

// Search against every assignment, through the simulator.
void expect_equals_brute_force(const RandomInstance& r, uint64_t seed, Tally& tally) {
  const Instance in = random_instance(r, seed);
  const BruteForce want = brute_force(in);
  const SearchResult got = search(in);
  SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << name_of(r.schedule) << ", " << r.layers << " layers, "
                                  << r.strategies << " strategies, " << r.stages << "x" << r.chunks << " stages, "
                                  << r.micro << " micro-batches, memory " << r.memory);
  ASSERT_EQ(got.found, want.found);
  EXPECT_FALSE(got.interrupted);
  if (!want.found) {
    ++tally.infeasible;
    if (r.chunks == 1 && !splits_backward(r.schedule)) {
      EXPECT_TRUE(got.infeasible);
      EXPECT_EQ(got.missing_bytes, want.missing);
    }
    return;
  }
  ++tally.found;
  tally.restricted += got.restricted;
  const Priced p = price(in, got.assignment);
  EXPECT_TRUE(p.fits());
  EXPECT_EQ(p.makespan, got.makespan_ps);
  EXPECT_EQ(got.value_ps, want.value);
  EXPECT_EQ(got.bound_ps, want.value);
  EXPECT_EQ(got.simulator_gap(), 0);
}

TEST(SearchAgainstBruteForce, PlainPipelines) {
  Tally tally;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    RandomInstance r{.layers = 3 + static_cast<int>(seed % 4),
                     .strategies = 2 + static_cast<int>(seed / 4 % 3),
                     .stages = 1 + static_cast<int>(seed / 12 % 3),
                     .micro = 1 + static_cast<int>(seed % 7)};
    if (r.layers == 6 && r.strategies == 4) r.strategies = 3;
    r.memory = 0.2 + 0.1 * static_cast<double>(seed % 6);
    r.schedule = seed % 3 == 0 ? Schedule::gpipe : seed % 3 == 1 ? Schedule::one_f_one_b : Schedule::deep_one_f_one_b;
    expect_equals_brute_force(r, seed, tally);
  }
  EXPECT_GT(tally.found, 200);
}

}  // namespace
}  // namespace tern
