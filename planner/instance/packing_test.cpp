// The bound of whole layers against every assignment, through the simulator.
#include <gtest/gtest.h>

#include <cstdio>

#include "planner/instance/brute_force_test.h"
#include "planner/instance/cut_bound_impl.h"
#include "planner/instance/packing_impl.h"
#include "planner/instance/relaxation_impl.h"
#include "planner/outer/mixed_instance_test.h"

namespace tern {
namespace {

// Equal layers between two ends, where counting them matters, over a few devices and many micro-batches.
RandomInstance crowded_instance(uint64_t seed) {
  RandomInstance r = mixed_instance(seed);
  r.equal_layers = r.ends = true;
  r.layers = r.stages * r.chunks + 2 + static_cast<int>(seed % 3);
  r.strategies = 2;
  r.micro = r.stages * (4 + static_cast<int>(seed / 7 % 5));
  r.host_link = r.tiers = false;
  return r;
}

struct Compared {
  int feasible = 0, above_relaxation = 0, tight = 0;
};
Compared compare(const std::function<RandomInstance(uint64_t)>& draw, uint64_t seeds) {
  Compared n;
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    const RandomInstance r = draw(seed);
    const Instance in = random_instance(r, seed);
    const Chain chain = make_chain(in, Objective::simulated);
    const int64_t known = mean_bound(chain), alone = packing_bound(chain, 0, kNever),
                  both = packing_bound(chain, known, kNever);
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << name_of(in.schedule));
    EXPECT_GE(both, known);
    EXPECT_GE(alone, 0);
    const BruteForce best = brute_force(in);
    if (!best.found) continue;
    ++n.feasible;
    EXPECT_LE(alone, best.value);
    EXPECT_LE(both, best.value);
    // Against a plan that is known it says "none is below", or less.
    EXPECT_LE(packing_bound(chain, known, best.value), best.value);
    EXPECT_LE(packing_bound(chain, known, best.value + best.value / 7 + 1), best.value);
    EXPECT_LE(packing_bound(chain, 0, 4 * best.value), best.value);
    if (alone >= kNever || in.num_stages == 1) continue;
    n.above_relaxation += alone > cut_bound(chain, kNever, 20).bound;
    n.tight += both >= best.value - best.value / 100;
  }
  std::printf("%d feasible, %d above the relaxation, %d within 1%% of the optimum\n", n.feasible, n.above_relaxation,
              n.tight);
  return n;
}

TEST(Packing, IsBelowEveryAssignmentThatFits) {
  const Compared n = compare(mixed_instance, 400);
  EXPECT_GT(n.feasible, 250);
}

TEST(Packing, IsAboveTheRelaxationWhereLayersDoNotDivide) {
  const Compared n = compare(crowded_instance, 240);
  EXPECT_GT(n.feasible, 150);
  EXPECT_GT(n.above_relaxation, n.feasible / 20);
}

CostVector layer_of(int64_t forward, int64_t bytes) {
  CostVector c;
  c.forward = forward, c.backward = 2 * forward, c.persistent[0] = bytes;
  return c;
}

Instance chain_of(const std::vector<std::vector<CostVector>>& cost, int stages, int micro, int64_t capacity) {
  Instance in{.num_stages = stages, .num_micro = micro, .schedule = PipelineSchedule::one_f_one_b};
  in.cost = cost;
  for (size_t u = 0; u + 1 < cost.size(); ++u) {
    in.within.emplace_back(cost[u].size() * cost[u + 1].size());
    in.across.emplace_back(cost[u].size() * cost[u + 1].size());
  }
  in.capacity.assign(static_cast<size_t>(stages), {capacity, 0, 0});
  return in;
}

// Ten layers on four devices: one has three, so (c + 1)·9·w on the second device from there, or c·9·w on the first.
TEST(Packing, TenLayersOnFourDevicesPutThreeOnOne) {
  const Instance in = chain_of(std::vector<std::vector<CostVector>>(10, {layer_of(100, 1)}), 4, 16, 1000);
  const int64_t bound = packing_bound(make_chain(in, Objective::simulated), 0, kNever);
  EXPECT_GE(bound, 16 * 3 * 300);
  EXPECT_LE(bound, brute_force(in).value);
}

// A layer is fast and large or slow and small; each device holds one large one beside a small one at most, though all
// of them together would have room for more.
TEST(Packing, NoDeviceLendsAnotherItsMemory) {
  const std::vector<CostVector> row{layer_of(100, 60), layer_of(150, 30)};
  std::vector<std::vector<CostVector>> cost(6, row);
  Instance in = chain_of(cost, 3, 12, 100);
  in.capacity[0][0] = 60, in.capacity[2][0] = 400;
  const Chain chain = make_chain(in, Objective::simulated);
  const int64_t bound = packing_bound(chain, mean_bound(chain), kNever), optimum = brute_force(in).value;
  EXPECT_LE(bound, optimum);
  EXPECT_GT(bound, optimum * 9 / 10) << optimum;
}

}  // namespace
}  // namespace tern
