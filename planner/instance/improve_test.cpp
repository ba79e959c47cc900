// Local improvement, judged by every move of a single layer, priced one by one.
#include "planner/instance/improve.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "plan/legality.h"
#include "planner/instance/local_optimum_testing.h"
#include "planner/instance/move_price.h"
#include "planner/instance/order_peaks.h"
#include "planner/instance/random_instance.h"
#include "planner/instance/search.h"

namespace tern {
namespace {

RandomInstance improved_case(int seed) {
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
    const Instance in = random_instance(improved_case(seed), static_cast<uint64_t>(seed));
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

// Each move of a walk at random over layers, stages and strategies, priced whole beside.
TEST(Improve, AMoveIsTakenWhereItFitsAndIsFaster) {
  int taken = 0, refused = 0;
  for (int seed = 0; seed < 120; ++seed) {
    RandomInstance r = improved_case(seed);
    r.host_link = seed % 5 == 0, r.tiers = seed % 10 == 0, r.begins = seed % 3 == 1;
    const Instance in = random_instance(r, static_cast<uint64_t>(seed));
    const SearchResult first = search(in, {.simulations = 0, .labels = 50});
    if (!first.found) continue;
    MovePricer moves(in, first.assignment);
    Assignment a = first.assignment;
    int64_t makespan = first.makespan_ps;
    ASSERT_EQ(moves.makespan(), makespan) << "seed " << seed;
    for (uint64_t step = 0; step < 150; ++step) {
      const auto draw = [&](uint64_t what, size_t most) {
        return static_cast<size_t>(random_u64({.seed = static_cast<uint64_t>(seed)}, 3 * step + what) % most);
      };
      const size_t u = draw(0, a.stage.size());
      const bool is_first = u == 0 || a.stage[u - 1] != a.stage[u];
      const bool is_last = u + 1 == a.stage.size() || a.stage[u + 1] != a.stage[u];
      int stage = a.stage[u];
      if (draw(1, 2) && is_first != is_last && u > 0 && u + 1 < a.stage.size()) stage += is_first ? -1 : 1;
      const int strategy = static_cast<int>(draw(2, in.cost[u].size()));
      Assignment b = a;
      b.stage[u] = stage, b.strategy[u] = strategy;
      const Priced p = price(in, b);
      const bool wanted = p.fits() && p.makespan < makespan;
      ASSERT_EQ(moves.take_if_faster(static_cast<int>(u), stage, strategy), wanted)
          << "seed " << seed << ", step " << step << ": layer " << u << " to stage " << stage << ", strategy "
          << strategy;
      if (wanted) a = b, makespan = p.makespan;
      ASSERT_EQ(moves.assignment(), a) << "seed " << seed << ", step " << step;
      ASSERT_EQ(moves.makespan(), makespan) << "seed " << seed << ", step " << step;
      ++(wanted ? taken : refused);
    }
  }
  EXPECT_GE(taken, 50);
  EXPECT_GE(refused, 1000);
}

// The few moments that count give the peaks of the whole order, whatever the stages hold.
TEST(OrderPeaks, AreThoseOfTheWholeOrder) {
  for (const PipelineSchedule schedule : kPipelineSchedules) {
    if (order_follows_times(schedule)) continue;
    for (const int devices : {1, 2, 3, 4})
      for (const int micro : {1, 4, 5, 12}) {
        const int chunks = traits_of(schedule).chunks == ChunkRule::one ? 1 : least_chunks(schedule);
        if (!why_illegal_schedule(schedule, devices, chunks, micro).empty()) continue;
        const PipelineShape shape{
            .schedule = schedule, .num_devices = devices, .chunks_per_device = chunks, .num_micro = micro};
        const std::vector<int64_t> stages(static_cast<size_t>(shape.num_virtual_stages()), 3),
            links(stages.size() - 1, 1), ends(static_cast<size_t>(devices), 0);
        const PipelineOrder order = pipeline_order(shape, {stages, stages, stages, links, links, ends, ends});
        const OrderPeaks peaks(shape, order);
        for (uint64_t draw = 0; draw < 20; ++draw) {
          AssignmentBytes bytes{std::vector<TierBytes>(static_cast<size_t>(devices)),
                                std::vector<StageBytes>(static_cast<size_t>(shape.num_virtual_stages()))};
          uint64_t at = 0;
          const auto random = [&] { return static_cast<int64_t>(random_u64({.seed = draw}, ++at) % 100); };
          for (TierBytes& b : bytes.persistent)
            for (int64_t& x : b) x = random();
          for (StageBytes& s : bytes.stages) {
            for (int64_t& x : s.held) x = random();
            s.held_weight = random(), s.transient = random();
          }
          const std::vector<TierBytes> want = peak_bytes(shape, order, bytes);
          for (int d = 0; d < devices; ++d)
            ASSERT_EQ(peaks.peak(d, bytes), want[static_cast<size_t>(d)])
                << name_of(schedule) << ", " << devices << " devices, " << micro << " micro-batches";
        }
      }
  }
}

// Counts end it at the same place everywhere, and what it has by then is no slower than what it was given.
TEST(Improve, EndsByCountedOperations) {
  int judged = 0;
  for (int seed = 0; seed < 120; ++seed) {
    const Instance in = random_instance(improved_case(seed), static_cast<uint64_t>(seed));
    const SearchResult first = search(in, {.simulations = 0, .labels = 50});
    if (!first.found) continue;
    const Improved all = improve(in, first.assignment);
    if (all.taken < 2) continue;
    const Improved none = improve(in, first.assignment, {.operations = 0});
    EXPECT_FALSE(none.complete) << "seed " << seed;
    EXPECT_EQ(none.assignment, first.assignment) << "seed " << seed;
    // What is given is priced and its path followed; the third walk takes a move at best.
    const int64_t each = int64_t{3} * in.num_stages * in.chunks_per_stage * in.num_micro;
    const Improved some = improve(in, first.assignment, {.operations = 3 * each});
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
    const Instance in = random_instance(improved_case(seed), static_cast<uint64_t>(seed));
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
