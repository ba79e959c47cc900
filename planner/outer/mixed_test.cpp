#include <gtest/gtest.h>

#include <algorithm>

#include "plan/plan_file.h"
#include "planner/outer/answer_impl.h"
#include "planner/outer/first_plans_impl.h"
#include "planner/outer/plan_model.h"
#include "planner/outer/twin_test.h"
#include "spec/recompute.h"

namespace tern {
namespace {

// Two devices in a node beside slower ones with other memory, one to a node.
Cluster unlike_cluster(int64_t fast_memory, int64_t slow_memory, int64_t slow_nodes, double slower) {
  Cluster c = small_cluster(2, fast_memory);
  c.network = {{.name = "ethernet", .nodes = 8, .latency_ps = 60'000'000}};
  c.nodes[0].name = "fast", c.nodes[0].network = 5e9;
  c.devices.push_back(c.devices[0]);
  c.devices[1].name = "slow", c.devices[1].memory_bytes = slow_memory + c.devices[1].reserved_bytes;
  for (auto& [dtype, peak] : c.devices[1].peak) peak /= slower;
  c.nodes.push_back(c.nodes[0]);
  c.nodes[1].name = "slow", c.nodes[1].device = 1, c.nodes[1].num_devices = c.nodes[1].link.devices = 1;
  c.nodes[1].network = 2.5e9;  // a device's share is as on the other
  c.groups = {{0, 1}, {1, slow_nodes}};
  return c;
}

// Twin: every sequence of machines, every cut and strategy, priced one by one.
Best loops_over_unlike(const ModelSpec& spec, const Cluster& cluster, const TrainJob& job, const SearchSpace& space) {
  const std::vector<Machine> machines{machine_of(cluster, 0), machine_of(cluster, 1)};
  const std::vector<Layer> layers = layers_of(spec);
  Best best;
  for (int64_t d = 1; d <= 2; ++d)
    for (int64_t b = 1; b * d <= job.batch; ++b)
      for (int P = 1; P <= 4; ++P)
        for (int order = 0; order < 1 << P; ++order)
          for (const PipelineSchedule schedule : space.schedules) {
            const Mesh mesh{.data = d};
            if (job.batch % (d * b) || (P == 1 && schedule != space.schedules.front())) continue;
            Instance in{.num_stages = P, .num_micro = static_cast<int>(job.batch / (d * b)), .schedule = schedule};
            std::vector<int64_t> used(2, 0);
            for (int s = 0; s < P; ++s) {
              in.stage_type.push_back(order >> s & 1);
              used[static_cast<size_t>(in.stage_type.back())] += d;
              const Machine& m = machines[static_cast<size_t>(in.stage_type.back())];
              in.capacity.push_back({m.device_capacity(), m.host_capacity(), m.disk_capacity()});
            }
            if (P > static_cast<int>(layers.size()) || used[0] > machines[0].num_devices() ||
                used[1] > machines[1].num_devices())
              continue;
            std::vector<LayerCosts> costs;
            for (const Machine& m : machines)
              if (m.num_devices() >= d) costs.emplace_back(spec, job, m, mesh, b);
            for (const Layer& layer : layers) {
              in.cost.emplace_back(), in.strategy_type.emplace_back();
              for (int m = 0; m < static_cast<int>(costs.size()); ++m)
                for (const int zero : space.zero)
                  for (const Recompute r : space.recompute) {
                    in.cost.back().push_back(costs[static_cast<size_t>(m)].cost(layer, {zero, r}, P > 1));
                    in.strategy_type.back().push_back(m);
                  }
            }
            for (size_t u = 0; u + 1 < layers.size(); ++u) {
              in.within.emplace_back(in.cost[u].size() * in.cost[u + 1].size());
              in.across.emplace_back(), in.other_across.resize(1), in.other_across[0].emplace_back();
              for (const int x : in.strategy_type[u])
                for (const int y : in.strategy_type[u + 1]) {
                  // Both nodes' cards are alike: what the fast machine pays to another node.
                  const EdgeCost far = costs[0].edge(layers[u], false);
                  in.across.back().push_back(far);
                  in.other_across[0].back().push_back(x == 0 && y == 0 ? costs[0].edge(layers[u], true) : far);
                }
            }
            for (int s = 0; s + 1 < P; ++s)
              in.link_class.push_back(in.stage_type[static_cast<size_t>(s)] == 0 &&
                                      in.stage_type[static_cast<size_t>(s) + 1] == 0 && d == 1);
            try_assignments(in, {mesh, P, 1, schedule, b, in.num_micro}, best);
          }
  return best;
}

TEST(PlanModelMixed, UnlikeNodesEqualPlainLoopsOverEveryOrder) {
  int mixed = 0;
  for (const auto& [fast, slow, nodes, slower] :
       {std::tuple{8 * kGB, 8 * kGB, 1, 2.0}, {5 * kGB, 12 * kGB, 1, 1.3}, {4 * kGB, 6 * kGB, 2, 1.5}}) {
    const Cluster cluster = unlike_cluster(fast, slow, nodes, slower);
    const ModelSpec spec = small_model(2);
    PlanRequest request{.model = "x", .job = {.batch = 4, .seq = 1024}};
    request.space.schedules = {PipelineSchedule::one_f_one_b, PipelineSchedule::gpipe};
    request.space.zero = {0}, request.space.recompute = {Recompute::none, Recompute::full};
    request.space.states = request.space.activations = {Tier::device};
    request.space.max_tensor = request.space.max_context = 1;
    const Best want = loops_over_unlike(spec, cluster, request.job, request.space);
    const PlanAnswer got = plan_model(spec, cluster, request);
    ASSERT_TRUE(got.found) << slower;
    EXPECT_EQ(got.plan.step_ps, want.makespan)
        << to_string(got.plan.choice) << " on " << got.plan.node << ", plain loops: " << to_string(want.choice);
    EXPECT_EQ(got.plan.bound_ps, want.makespan);
    mixed += got.plan.node.find(',') != std::string::npos;
    EXPECT_EQ(parse_plan(plan_json(got.plan), "p"), got.plan);
  }
  EXPECT_GT(mixed, 0);
}

TEST(PlanModelMixed, OrdersAreAllOrHaveTheirStagesOfAMachineTogether) {
  const auto [all, complete] = orders_of(4, {2, 3}, 64);
  EXPECT_TRUE(complete);
  EXPECT_EQ(all.size(), 4u + 6u);  // one or two of the first among four
  const auto [blocks, whole] = orders_of(12, {6, 9}, 64);
  EXPECT_FALSE(whole);
  EXPECT_EQ(blocks.size(), 4u);  // as many as may be of either, either first
  for (const auto& order : blocks) {
    EXPECT_EQ(order.size(), 12u);
    EXPECT_LE(std::count(order.begin(), order.end(), 0), 6);
    EXPECT_LE(std::count(order.begin(), order.end(), 1), 9);
    int changes = 0;
    for (size_t s = 1; s < order.size(); ++s) changes += order[s] != order[s - 1];
    EXPECT_EQ(changes, 1);
  }
}

// A quick device and a slow one that hold the model each: unequal shares of the batch beat equal ones and a pipeline.
TEST(PlanModelMixed, UnlikePipelinesShareTheBatchUnequally) {
  Cluster cluster = unlike_cluster(60 * kGB, 60 * kGB, 1, 2.0);
  cluster.nodes[0].network = 200e9, cluster.nodes[1].network = 100e9;
  PlanRequest request{.model = "x", .job = {.batch = 96, .seq = 1024}};
  request.space.schedules = {PipelineSchedule::one_f_one_b};
  request.space.states = request.space.activations = {Tier::device};
  request.space.max_tensor = request.space.max_context = request.space.max_micro_batch = 1;
  const PlanAnswer a = plan_model(small_model(3), cluster, request);
  ASSERT_TRUE(a.found);
  const auto pool = std::find_if(a.plan.families.begin(), a.plan.families.end(),
                                 [](const PlannedFamily& f) { return f.feature == "unlike pipelines side by side"; });
  ASSERT_NE(pool, a.plan.families.end());
  ASSERT_TRUE(pool->found) << a.plan.node << " " << to_string(a.plan.choice);
  EXPECT_LT(pool->step_ps, a.plan.step_ps);
  EXPECT_LE(pool->bound_ps, pool->step_ps);
  EXPECT_GT(pool->bound_ps, pool->step_ps * 9 / 10);
  EXPECT_NE(pool->choice.find("pipelines: "), std::string::npos) << pool->choice;
}

}  // namespace
}  // namespace tern
