// Returned plans: no move of a single layer makes one faster. The tables are made anew, with every strategy of the
// space. TERN_PLANS: how many plans (30).
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/rng.h"
#include "plan/cost_model.h"
#include "planner/instance/local_optimum_testing.h"
#include "planner/outer/plan_model.h"
#include "planner/outer/twin_test.h"
#include "spec/recompute.h"

namespace tern {
namespace {

struct OptimumQuestion {
  ModelSpec spec;
  Cluster cluster;
  PlanRequest request;
};

// V shapes in every second, where answers come from a restricted family.
OptimumQuestion question_of(int seed) {
  const auto draw = [&](int64_t most, uint64_t what) {
    return static_cast<int64_t>(random_u64({.seed = static_cast<uint64_t>(seed)}, what) % static_cast<uint64_t>(most));
  };
  OptimumQuestion q{
      small_model(6 + draw(9, 1)), small_cluster(int64_t{1} << (1 + draw(3, 2)), (6 + draw(20, 3)) * kGB), {}};
  q.request = {.model = "small", .job = {.batch = 8 << draw(3, 4), .seq = 1024 << draw(3, 5)}};
  SearchSpace& s = q.request.space;
  s.states = s.activations = {Tier::device};
  s.max_tensor = 2, s.max_context = 1;
  if (seed % 2) s.schedules = {PipelineSchedule::zb_v, PipelineSchedule::v_half}, s.max_tensor = 1, s.zero = {0, 1};
  return q;
}

// The instance of a plan's choice and its assignment, layers and strategies as the plan's file has them.
std::pair<Instance, Assignment> instance_of(const OptimumQuestion& q, const Plan& p) {
  const Machine m = machine_of(q.cluster, 0);
  const OuterChoice& c = p.choice;
  const LayerCosts costs(q.spec, q.request.job, m, c.mesh, c.micro_batch);
  const std::vector<Layer> layers = layers_of(q.spec);
  Instance in{.num_stages = c.num_stages,
              .chunks_per_stage = c.chunks_per_stage,
              .num_micro = static_cast<int>(c.num_micro),
              .schedule = c.schedule};
  const SearchSpace& s = q.request.space;
  std::vector<LayerStrategy> strategies;
  for (const int zero : s.zero)
    for (const Recompute r : s.recompute) strategies.push_back({.zero = zero, .recompute = r});
  for (size_t u = 0; u < layers.size(); ++u) {
    in.cost.emplace_back();
    for (const LayerStrategy& st : strategies) in.cost.back().push_back(costs.cost(layers[u], st, c.num_stages > 1));
    if (u + 1 == layers.size()) break;
    in.within.emplace_back(strategies.size() * strategies.size());
    in.across.emplace_back(strategies.size() * strategies.size(), costs.edge(layers[u], true));
  }
  in.capacity.assign(static_cast<size_t>(c.num_stages), {m.device_capacity(), m.host_capacity(), m.disk_capacity()});
  Assignment a;
  for (const PlannedLayers& l : p.layers)
    for (int i = 0; i < l.count; ++i) {
      a.stage.push_back(l.stage);
      a.strategy.push_back(
          static_cast<int>(std::find(strategies.begin(), strategies.end(), l.strategy) - strategies.begin()));
    }
  return {in, a};
}

TEST(LocalOptimumSlow, NoMoveOfASingleLayerImprovesAReturnedPlan) {
  const char* given = std::getenv("TERN_PLANS");
  const int plans = given ? std::atoi(given) : 30;
  int found = 0, v_shaped = 0;
  for (int seed = 0; found < plans; ++seed) {
    ASSERT_LT(seed, 4 * plans);
    const OptimumQuestion q = question_of(seed);
    PlanRequest request = q.request;
    request.effort = SearchEffort::quick;
    const PlanAnswer a = plan_model(q.spec, q.cluster, request);
    if (!a.found) continue;
    ++found, v_shaped += is_v_shaped(a.plan.choice.schedule);
    const auto [in, assignment] = instance_of(q, a.plan);
    ASSERT_EQ(price(in, assignment).makespan, a.plan.step_ps) << "seed " << seed;
    EXPECT_EQ(faster_single_move(in, assignment), "") << "seed " << seed << ": " << to_string(a.plan.choice);
  }
  EXPECT_GE(v_shaped, plans / 5);
}

}  // namespace
}  // namespace tern
