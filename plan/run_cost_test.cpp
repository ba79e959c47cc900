#include "plan/run_cost.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "hardware/machines.h"
#include "spec/presets.h"

namespace tern {
namespace {

TEST(RunCost, TheIntervalIsTheOneOfLeastTime) {
  for (const double delta : {1.0, 60.0, 900.0})
    for (const double M : {3600.0, 86400.0, 1e7}) {
      const double best = best_interval_s(delta, M), R = 300, T = 1e7;
      const double least = expected_wall_s(T, best, delta, R, M);
      // Daly's series is within 0.2 % of the exact least for delta < M/2.
      for (double tau = best / 30; tau < best * 30; tau *= 1.01)
        EXPECT_GE(expected_wall_s(T, tau, delta, R, M), least * 0.998) << delta << " " << M << " " << tau;
      EXPECT_NEAR(best / std::sqrt(2 * delta * M), 1, 0.55 * std::sqrt(delta / M) + 1e-9) << "Young's, to first order";
    }
  EXPECT_EQ(best_interval_s(50, 20), 20) << "checkpoints longer than two failures apart";
}

TEST(RunCost, WithoutFailuresOnlyTheCheckpointsAreAdded) {
  EXPECT_NEAR(expected_wall_s(1000, 100, 10, 5, 1e12), 1100, 1e-3);
  EXPECT_GT(expected_wall_s(1000, 100, 10, 5, 1e4), expected_wall_s(1000, 100, 10, 5, 1e5));
}

// Two seconds a step on eight devices at 20 an hour.
Plan two_second_plan(const Cluster& cluster) {
  Plan p;
  p.job = {.batch = 64, .seq = 4096};
  p.choice = {.mesh = {.data = 8}, .micro_batch = 2, .num_micro = 4};
  p.step_ps = 2'000'000'000'000;
  p.price_per_hour = 20;
  p.ranks.push_back({.node = cluster.nodes[0].name});
  return p;
}

TEST(RunCost, StepsFailuresAndMoneyFollowFromTheTerms) {
  const ModelSpec spec = *preset_model("llama-2-7b");
  const Cluster cluster = find_cluster("h100");
  const Plan p = two_second_plan(cluster);
  RunTerms terms{.tokens = 1e9, .mtbf_s = 8e6, .checkpoint_s = 20, .restart_s = 100};
  const RunCost r = run_cost(spec, cluster, p, terms);
  EXPECT_EQ(r.steps, 3815) << "1e9 / (64 · 4096), rounded up";
  EXPECT_DOUBLE_EQ(r.steps_s, 7630);
  EXPECT_DOUBLE_EQ(r.mtbf_s, 1e6);
  EXPECT_EQ(r.checkpoint_bytes, num_parameters(spec) * (2 + 12)) << "bf16 weights, f32 master and two moments";
  EXPECT_NEAR(r.interval_s, std::sqrt(2 * 20 * 1e6), 30);
  EXPECT_GT(r.wall_s, r.steps_s * (1 + 20 / r.interval_s));
  EXPECT_DOUBLE_EQ(r.cost, r.wall_s / 3600 * 20);
  EXPECT_DOUBLE_EQ(r.device_hours, r.wall_s / 3600 * 8);
  EXPECT_TRUE(r.ends && r.has_price);
  // On its disks: the bytes over what the node writes.
  terms.checkpoint_s = -1;
  EXPECT_DOUBLE_EQ(run_cost(spec, cluster, p, terms).checkpoint_s,
                   static_cast<double>(r.checkpoint_bytes) / cluster.nodes[0].disk_write);
  Cluster diskless = cluster;
  diskless.nodes[0].disk_write = 0;
  EXPECT_THROW(run_cost(spec, diskless, p, terms), Error);
}

// Restarts of ten minutes: with failures further apart the run ends, ever later; with failures every few seconds never.
TEST(RunCost, ARunThatFailsFasterThanItRestartsNeverEnds) {
  const ModelSpec spec = *preset_model("llama-2-7b");
  const Cluster cluster = find_cluster("h100");
  const Plan p = two_second_plan(cluster);
  double before = 0;
  for (const double mtbf_s : {1e9, 1e6, 1e5, 1e4}) {
    const RunCost r =
        run_cost(spec, cluster, p, {.tokens = 1e9, .mtbf_s = mtbf_s, .checkpoint_s = 20, .restart_s = 600});
    EXPECT_TRUE(r.ends) << mtbf_s;
    EXPECT_GT(r.wall_s, before);
    before = r.wall_s;
  }
  for (const double mtbf_s : {150.0, 10.0, 1e-3, 1e-300}) {
    const RunCost r =
        run_cost(spec, cluster, p, {.tokens = 1e9, .mtbf_s = mtbf_s, .checkpoint_s = 20, .restart_s = 600});
    EXPECT_FALSE(r.ends) << mtbf_s;
    EXPECT_TRUE(std::isnan(r.wall_s) && std::isnan(r.cost) && std::isnan(r.failures) && std::isnan(r.device_hours));
    EXPECT_GT(r.interval_s, 0) << "what does not depend on the end is told";
  }
}

}  // namespace
}  // namespace tern
