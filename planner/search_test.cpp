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

const Schedule kPlain[] = {Schedule::gpipe, Schedule::one_f_one_b, Schedule::deep_one_f_one_b};

// 100 seeds of a feature, over the plain schedules unless it names one.
void sweep(const RandomInstance& base, int seeds, int least_infeasible = 0) {
  Tally tally;
  for (int seed = 0; seed < seeds; ++seed) {
    RandomInstance r = base;
    r.layers = 3 + seed % 4;
    r.strategies = 2 + seed / 4 % (r.layers == 6 ? 2 : 3);
    r.stages = 1 + seed / 12 % 3;
    r.micro = 1 + seed % 7;
    if (r.memory > 0) r.memory = 0.15 + 0.1 * (seed % 7);
    r.schedule = kPlain[seed % 3];
    expect_equals_brute_force(r, static_cast<uint64_t>(seed), tally);
  }
  EXPECT_GE(tally.infeasible, least_infeasible);
  EXPECT_GE(tally.found + tally.infeasible, seeds);
}

TEST(SearchAgainstBruteForce, PlainPipelines) { sweep({}, 300); }
TEST(SearchAgainstBruteForce, GradientSynchronisationAtTheEnd) { sweep({.tails = true}, 150); }
TEST(SearchAgainstBruteForce, StepsThatBeginLate) { sweep({.tails = true, .begins = true}, 100); }
TEST(SearchAgainstBruteForce, CostsOfEnteringAStage) { sweep({.entries = true}, 100); }
TEST(SearchAgainstBruteForce, TransientMemory) { sweep({.transients = true}, 150); }
TEST(SearchAgainstBruteForce, HostLink) { sweep({.host_link = true}, 100); }
TEST(SearchAgainstBruteForce, HostLinkAndSynchronisation) {
  sweep({.tails = true, .entries = true, .host_link = true}, 100);
}
TEST(SearchAgainstBruteForce, MemoryTiers) { sweep({.transients = true, .host_link = true, .tiers = true}, 150); }
TEST(SearchAgainstBruteForce, SlowLinks) { sweep({.link = 400}, 100); }
TEST(SearchAgainstBruteForce, WithoutResharding) { sweep({.resharding = false, .tails = true}, 100); }
TEST(SearchAgainstBruteForce, EqualLayers) { sweep({.equal_layers = true, .ends = true, .resharding = false}, 150); }
TEST(SearchAgainstBruteForce, EqualLayersThatReshard) { sweep({.equal_layers = true}, 100); }
TEST(SearchAgainstBruteForce, Everything) {
  sweep({.tails = true, .begins = true, .entries = true, .transients = true, .host_link = true, .tiers = true}, 150);
}
TEST(SearchAgainstBruteForce, NothingFits) { sweep({.memory = -0.4}, 100, 90); }
TEST(SearchAgainstBruteForce, NothingFitsInTiers) {
  sweep({.transients = true, .tiers = true, .memory = -0.2}, 100, 60);
}

TEST(SearchAgainstBruteForce, UnlikeDevices) { sweep({.types = 2}, 150); }
TEST(SearchAgainstBruteForce, UnlikeDevicesThatSynchronise) {
  sweep({.tails = true, .begins = true, .transients = true, .types = 2, .link_classes = 2}, 100);
}
TEST(SearchAgainstBruteForce, UnequalLinks) { sweep({.link = 150, .link_classes = 3}, 100); }

TEST(SearchAgainstBruteForce, SingleLayerStages) {
  Tally tally;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    const int n = 2 + static_cast<int>(seed % 4);
    expect_equals_brute_force({.layers = n,
                               .strategies = 2 + static_cast<int>(seed % 3),
                               .stages = n,
                               .micro = 1 + static_cast<int>(seed % 9),
                               .schedule = kPlain[seed % 3],
                               .tails = seed % 2 == 0,
                               .memory = 0.5},
                              seed, tally);
  }
  EXPECT_GT(tally.found, 60);
}

TEST(SearchAgainstBruteForce, ZeroBubble) {
  Tally tally;
  for (uint64_t seed = 0; seed < 120; ++seed)
    expect_equals_brute_force({.layers = 3 + static_cast<int>(seed % 3),
                               .strategies = 2,
                               .stages = 1 + static_cast<int>(seed / 3 % 3),
                               .micro = 2 + static_cast<int>(seed % 4),
                               .schedule = seed % 2 == 0 ? Schedule::zb_h1 : Schedule::zb_h2,
                               .tails = seed % 3 == 0,
                               .transients = seed % 5 == 0,
                               .split = true,
                               .types = seed % 7 == 0 ? 2 : 1,
                               .memory = 0.5},
                              seed, tally);
  EXPECT_GT(tally.found, 60);
}

TEST(SearchAgainstBruteForce, Interleaved) {
  Tally tally;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    const int stages = 1 + static_cast<int>(seed % 2), chunks = 2 + static_cast<int>(seed / 2 % 2);
    expect_equals_brute_force({.layers = stages * chunks + static_cast<int>(seed % 3) % 2,
                               .strategies = 2,
                               .stages = stages,
                               .chunks = chunks,
                               .micro = stages * (1 + static_cast<int>(seed % 3)),
                               .schedule = Schedule::interleaved,
                               .tails = seed % 3 == 0,
                               .begins = seed % 4 == 0,
                               .transients = seed % 5 == 0,
                               .types = seed % 6 == 1 ? 2 : 1,
                               .link_classes = seed % 6 == 1 ? 2 : 1,
                               .memory = 0.7},
                              seed, tally);
  }
  EXPECT_GT(tally.found, 60);
}

TEST(SearchAgainstBruteForce, VShapes) {
  Tally tally;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    const int stages = seed % 2 == 0 ? 2 : 1;
    expect_equals_brute_force({.layers = 2 * stages + static_cast<int>(seed / 2 % 3),
                               .strategies = 2,
                               .stages = stages,
                               .chunks = 2,
                               .micro = 2 * stages + static_cast<int>(seed % 3),
                               .schedule = seed % 4 < 2 ? Schedule::zb_v : Schedule::v_half,
                               .tails = seed % 3 == 0,
                               .transients = seed % 5 == 0,
                               .split = true,
                               .memory = 0.7},
                              seed, tally);
  }
  EXPECT_GT(tally.found, 60);
}

}  // namespace
}  // namespace tern
