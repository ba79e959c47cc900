#include "planner/instance/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "planner/instance/brute_force_test.h"
#include "planner/instance/random_instance.h"

namespace tern {
namespace {

struct Tally {
  int found = 0, infeasible = 0, restricted = 0, shown = 0;
};

// Whether the optimum shows what the test is about.
using Witness = std::function<bool(const Instance&, const Assignment&)>;

// Search against every assignment, through the simulator.
void expect_equals_brute_force(const RandomInstance& r, uint64_t seed, Tally& tally, const Witness& witness = {}) {
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
  tally.shown += r.stages > 1 && (!witness || witness(in, got.assignment));
  const Priced p = price(in, got.assignment);
  EXPECT_TRUE(p.fits());
  EXPECT_EQ(p.makespan, got.makespan_ps);
  EXPECT_EQ(got.value_ps, want.value);
  EXPECT_EQ(got.bound_ps, want.value);
  EXPECT_EQ(got.simulator_gap(), 0);
}

constexpr int kShown = 100;  // of each feature: optima of several stages that show it
constexpr uint64_t kMost = 800;

RandomInstance drawn(RandomInstance r, uint64_t seed) {
  const int i = static_cast<int>(seed);
  r.layers = 3 + i % 4;
  r.strategies = 2 + i / 4 % (r.layers == 6 ? 2 : 3);
  if (r.stages > 1) r.stages = 2 + i / 12 % 2;
  r.micro = 1 + i % 7;
  if (r.memory > 0) r.memory = 0.25 + 0.1 * (i % 7);
  r.schedule = kPlainSchedules[i % 3];
  return r;
}

// Seeds of a feature over the plain schedules until enough optima show it.
void sweep(const RandomInstance& base, const Witness& witness) {
  Tally tally;
  for (uint64_t seed = 0; tally.shown < kShown && seed < kMost; ++seed)
    expect_equals_brute_force(drawn(base, seed), seed, tally, witness);
  EXPECT_GE(tally.shown, kShown);
}
void sweep_infeasible(const RandomInstance& base, int seeds, int least) {
  Tally tally;
  for (int seed = 0; seed < seeds; ++seed)
    expect_equals_brute_force(drawn(base, static_cast<uint64_t>(seed)), static_cast<uint64_t>(seed), tally);
  EXPECT_GE(tally.infeasible, least);
}

// Some layer's strategy has it.
template <class Has>
Witness uses(Has has) {
  return [has](const Instance& in, const Assignment& a) {
    for (size_t u = 0; u < in.cost.size(); ++u)
      if (has(in.cost[u][static_cast<size_t>(a.strategy[u])])) return true;
    return false;
  };
}
Witness both(const Witness& one, const Witness& other) {
  return [=](const Instance& in, const Assignment& a) { return one(in, a) && other(in, a); };
}
const Witness kSyncs = uses([](const CostVector& c) { return c.sync > 0; });
const Witness kBegins = uses([](const CostVector& c) { return c.begin > 0; });
const Witness kTransient = uses([](const CostVector& c) { return c.transient > 0; });
const Witness kUsesHost = uses([](const CostVector& c) { return c.host_forward > 0; });
const Witness kUsesTiers = uses([](const CostVector& c) { return c.persistent[1] > 0; });
bool unlike_strategies(const Instance&, const Assignment& a) {
  return std::count(a.strategy.begin(), a.strategy.end(), a.strategy[0]) < static_cast<int64_t>(a.strategy.size());
}
bool entered(const Instance& in, const Assignment& a) {  // a stage behind the first begins with such a layer
  for (size_t u = 1; u < a.stage.size(); ++u)
    if (a.stage[u] != a.stage[u - 1] && in.cost[u][static_cast<size_t>(a.strategy[u])].entry_forward > 0) return true;
  return false;
}
bool reshards(const Instance& in, const Assignment& a) {  // inside a stage
  for (size_t u = 0; u + 1 < a.stage.size(); ++u) {
    const size_t at =
        static_cast<size_t>(a.strategy[u]) * in.cost[u + 1].size() + static_cast<size_t>(a.strategy[u + 1]);
    if (a.stage[u] == a.stage[u + 1] && in.within[u][at].forward > 0) return true;
  }
  return false;
}
bool waits_for_links(const Instance& in, const Assignment& a) {  // a transfer takes longer than a stage
  const PipelineTimes t = price(in, a).times;
  return *std::max_element(t.send_forward.begin(), t.send_forward.end()) >
         *std::min_element(t.forward.begin(), t.forward.end());
}
bool unlike_devices(const Instance& in, const Assignment&) {
  return std::count(in.stage_type.begin(), in.stage_type.end(), in.stage_type[0]) < in.num_stages;
}
bool unequal_links(const Instance& in, const Assignment&) {
  return std::any_of(in.link_class.begin(), in.link_class.end(), [](int c) { return c > 0; });
}

TEST(SearchAgainstBruteForce, PlainPipelines) { sweep({}, unlike_strategies); }
TEST(SearchAgainstBruteForce, GradientSynchronisationAtTheEnd) { sweep({.tails = true}, kSyncs); }
TEST(SearchAgainstBruteForce, StepsThatBeginLate) { sweep({.tails = true, .begins = true}, both(kSyncs, kBegins)); }
TEST(SearchAgainstBruteForce, CostsOfEnteringAStage) { sweep({.entries = true}, entered); }
TEST(SearchAgainstBruteForce, TransientMemory) { sweep({.transients = true}, kTransient); }
TEST(SearchAgainstBruteForce, HostLink) { sweep({.host_link = true}, kUsesHost); }
TEST(SearchAgainstBruteForce, HostLinkAndSynchronisation) {
  sweep({.tails = true, .entries = true, .host_link = true}, both(kSyncs, kUsesHost));
}
TEST(SearchAgainstBruteForce, MemoryTiers) {
  sweep({.transients = true, .host_link = true, .tiers = true}, both(kUsesTiers, kTransient));
}
TEST(SearchAgainstBruteForce, SlowLinks) { sweep({.link = 400}, waits_for_links); }
TEST(SearchAgainstBruteForce, WithoutResharding) { sweep({.resharding = false, .tails = true}, unlike_strategies); }
TEST(SearchAgainstBruteForce, EqualLayers) {
  sweep({.equal_layers = true, .ends = true, .resharding = false}, unlike_strategies);
}
TEST(SearchAgainstBruteForce, EqualLayersThatReshard) { sweep({.equal_layers = true}, reshards); }
TEST(SearchAgainstBruteForce, Everything) {
  sweep({.tails = true, .begins = true, .entries = true, .transients = true, .host_link = true, .tiers = true},
        both(both(kSyncs, kBegins), both(kUsesHost, kUsesTiers)));
}
TEST(SearchAgainstBruteForce, NothingFits) { sweep_infeasible({.memory = -0.4}, 100, 90); }
TEST(SearchAgainstBruteForce, NothingFitsInTiers) {
  sweep_infeasible({.transients = true, .tiers = true, .memory = -0.2}, 100, 60);
}
TEST(SearchAgainstBruteForce, OneStage) {
  Tally tally;
  for (uint64_t seed = 0; seed < 100; ++seed)
    expect_equals_brute_force(drawn({.stages = 1,
                                     .tails = true,
                                     .begins = true,
                                     .entries = true,
                                     .transients = true,
                                     .host_link = true,
                                     .tiers = seed % 2 == 0},
                                    seed),
                              seed, tally);
  EXPECT_GT(tally.found, 60);
}

TEST(SearchAgainstBruteForce, UnlikeDevices) { sweep({.types = 2}, unlike_devices); }
TEST(SearchAgainstBruteForce, UnlikeDevicesThatSynchronise) {
  sweep({.tails = true, .begins = true, .transients = true, .types = 2, .link_classes = 2},
        both(both(unlike_devices, unequal_links), kSyncs));
}
TEST(SearchAgainstBruteForce, UnequalLinks) { sweep({.link = 150, .link_classes = 3}, unequal_links); }

TEST(SearchAgainstBruteForce, SingleLayerStages) {
  Tally tally;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    const int n = 2 + static_cast<int>(seed % 4);
    expect_equals_brute_force({.layers = n,
                               .strategies = 2 + static_cast<int>(seed % 3),
                               .stages = n,
                               .micro = 1 + static_cast<int>(seed % 9),
                               .schedule = kPlainSchedules[seed % 3],
                               .tails = seed % 2 == 0,
                               .memory = 0.5},
                              seed, tally);
  }
  EXPECT_GT(tally.found, 60);
}

TEST(SearchAgainstBruteForce, ZeroBubble) {
  for (const PipelineSchedule schedule : {PipelineSchedule::zb_h1, PipelineSchedule::zb_h2}) {
    Tally tally;
    for (uint64_t seed = 0; tally.shown < kShown && seed < kMost; ++seed)
      expect_equals_brute_force({.layers = 3 + static_cast<int>(seed % 2),
                                 .strategies = 2,
                                 .stages = 2 + static_cast<int>(seed / 3 % 2),
                                 .micro = 2 + static_cast<int>(seed % 4),
                                 .schedule = schedule,
                                 .tails = seed % 3 == 0,
                                 .transients = seed % 5 == 0,
                                 .split = true,
                                 .types = seed % 7 == 0 ? 2 : 1,
                                 .memory = 0.6},
                                seed, tally);
    EXPECT_GE(tally.shown, kShown);
  }
}

// Every row of the table, by its traits alone: what a new schedule is held against.
TEST(SearchAgainstBruteForce, EverySchedule) {
  for (const PipelineSchedule schedule : kPipelineSchedules) {
    Tally tally;
    const PipelineScheduleTraits& t = traits_of(schedule);
    for (uint64_t seed = 0; tally.shown < kShown / 2 && seed < kMost; ++seed) {
      const int stages = 2, chunks = least_chunks(schedule);
      expect_equals_brute_force({.layers = stages * chunks + static_cast<int>(seed / 2 % 2),
                                 .strategies = 2,
                                 .stages = stages,
                                 .chunks = chunks,
                                 .micro = (t.micro_divides_by_stages ? stages : 1) * (1 + static_cast<int>(seed % 4)),
                                 .schedule = schedule,
                                 .tails = seed % 3 == 0,
                                 .transients = seed % 5 == 0,
                                 .split = t.splits_backward,
                                 .memory = 0.7},
                                seed, tally);
    }
    EXPECT_GE(tally.shown, kShown / 2) << t.name;
  }
}

TEST(SearchAgainstBruteForce, Interleaved) {
  Tally tally;
  for (uint64_t seed = 0; tally.shown < kShown && seed < kMost; ++seed) {
    const int stages = seed % 8 == 7 ? 1 : 2, chunks = 2 + static_cast<int>(seed / 2 % 2);
    expect_equals_brute_force({.layers = stages * chunks + static_cast<int>(seed % 3) % 2,
                               .strategies = 2,
                               .stages = stages,
                               .chunks = chunks,
                               .micro = stages * (1 + static_cast<int>(seed % 3)),
                               .schedule = PipelineSchedule::interleaved,
                               .tails = seed % 3 == 0,
                               .begins = seed % 4 == 0,
                               .transients = seed % 5 == 0,
                               .types = seed % 6 == 1 ? 2 : 1,
                               .link_classes = seed % 6 == 1 ? 2 : 1,
                               .memory = 0.7},
                              seed, tally);
  }
  EXPECT_GE(tally.shown, kShown);
}

TEST(SearchAgainstBruteForce, VShapes) {
  for (const PipelineSchedule schedule : {PipelineSchedule::zb_v, PipelineSchedule::v_half}) {
    Tally tally;
    for (uint64_t seed = 0; tally.shown < kShown && seed < kMost; ++seed) {
      const int stages = seed % 8 == 7 ? 1 : 2;
      expect_equals_brute_force({.layers = 2 * stages + static_cast<int>(seed / 2 % 2),
                                 .strategies = 2,
                                 .stages = stages,
                                 .chunks = 2,
                                 .micro = 2 * stages + static_cast<int>(seed % 3),
                                 .schedule = schedule,
                                 .tails = seed % 3 == 0,
                                 .transients = seed % 5 == 0,
                                 .split = true,
                                 .memory = 0.7},
                                seed, tally);
    }
    EXPECT_GE(tally.shown, kShown);
  }
}

}  // namespace
}  // namespace tern
