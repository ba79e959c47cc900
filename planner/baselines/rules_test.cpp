#include "planner/baselines/rules.h"

#include <gtest/gtest.h>

#include "planner/outer/twin_test.h"

namespace tern {
namespace {

TEST(Rules, NoneIsBetterThanThePlanAndMostAreWorse) {
  int found = 0, worse = 0;
  for (const int64_t memory : {32 * kGB, 70 * kGB})
    for (const char* model : {"gpt2", "llama-2-7b"}) {
      const ModelSpec spec = *preset_model(model);
      PlanRequest request{.model = model, .job = {.batch = 32, .seq = 1024}};
      request.space.schedules = {PipelineSchedule::one_f_one_b, PipelineSchedule::interleaved};
      request.space.states = request.space.activations = {Tier::device};
      request.space.max_context = 1, request.seconds = 1;
      const Cluster cluster = small_cluster(4, memory);
      const PlanAnswer best = plan_model(spec, cluster, request);
      ASSERT_TRUE(best.found);
      const std::vector<RulePlan> rules = rules_of_thumb(spec, cluster, request, 20, 1);
      EXPECT_EQ(rules.size(), 4u);
      for (const RulePlan& r : rules) {
        SCOPED_TRACE(std::string(model) + ", " + r.rule);
        if (!r.found) continue;
        ++found;
        EXPECT_GE(r.makespan_ps, best.plan.bound_ps);
        worse += r.makespan_ps > best.plan.step_ps;
      }
      if (rules[0].found) { EXPECT_EQ(rules[0].choice.mesh.tensor, 4) << rules[0].rule; }
      EXPECT_EQ(rules[1].choice.mesh.data, rules[1].found ? 4 : 1);
    }
  EXPECT_GT(found, 10);
  EXPECT_GT(worse, 8);
}

}  // namespace
}  // namespace tern
