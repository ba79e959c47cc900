#include "planner/audit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "spec/presets.h"

namespace tern {
namespace {

struct Case {
  ModelSpec spec;
  Cluster cluster;
  PlanRequest request;
};

Case small_case() {
  Case c{.spec = *preset_model("llama-3-8b"),
         .cluster = read_cluster(TERN_SOURCE_DIR "/examples/hardware/h100-node.toml"),
         .request = {.model = "llama-3-8b"}};
  c.request.job = {.batch = 16, .seq = 4096};
  c.request.space.states = c.request.space.activations = {Tier::device};
  return c;
}

// The audit and the search count the same choices, and agree about the plan; what the audit proves is near the search's
// bound.
TEST(Audit, AcceptsWhatTheSearchFinds) {
  const Case c = small_case();
  const PlanAnswer answer = plan_model(c.spec, c.cluster, c.request);
  ASSERT_TRUE(answer.found);
  Plan plan = answer.plan;
  const PlanAudit first = audit_plan(c.spec, c.cluster, c.request, plan);
  EXPECT_TRUE(first.plan_holds) << first.reason;
  EXPECT_EQ(first.choices, plan.counts.legal);
  EXPECT_LE(first.proven_ps, plan.bound_ps);
  EXPECT_GT(static_cast<double>(first.proven_ps), 0.95 * static_cast<double>(plan.bound_ps));
  plan.bound_ps = first.proven_ps;
  const PlanAudit again = audit_plan(c.spec, c.cluster, c.request, plan);
  EXPECT_TRUE(again.accepted) << again.reason;
  EXPECT_EQ(again.by[static_cast<int>(AuditedBy::open)], 0);
}

TEST(Audit, RejectsWhatWasChanged) {
  const Case c = small_case();
  const PlanAnswer answer = plan_model(c.spec, c.cluster, c.request);
  ASSERT_TRUE(answer.found);
  Plan plan = answer.plan;
  plan.bound_ps = audit_plan(c.spec, c.cluster, c.request, plan).proven_ps;
  ASSERT_TRUE(audit_plan(c.spec, c.cluster, c.request, plan).accepted);
  const std::pair<const char*, std::function<void(Plan&)>> changes[] = {
      {"a faster step", [](Plan& p) { --p.step_ps; }},
      {"a slower step", [](Plan& p) { ++p.step_ps; }},
      {"a bound above its time", [](Plan& p) { p.bound_ps = p.step_ps + 1; }},
      {"a bound that is not proven", [](Plan& p) { p.bound_ps = p.step_ps; }},
      {"fewer choices", [](Plan& p) { --p.counts.legal; }},
      {"a byte less at the peak", [](Plan& p) { --p.ranks[0].peak[0]; }},
      {"more memory than there is", [](Plan& p) { ++p.ranks[0].capacity[0]; }},
      {"another node", [](Plan& p) { p.ranks[0].node = "other"; }},
      {"another batch", [](Plan& p) { p.job.batch *= 2; }},
      {"another optimizer", [](Plan& p) { p.job.optimizer = Optimizer::sgd; }},
      {"more micro-batches", [](Plan& p) { p.choice.num_micro *= 2; }},
      {"a wider mesh", [](Plan& p) { p.choice.mesh.tensor *= 2; }},
      {"a mesh that divides nothing", [](Plan& p) { p.choice.mesh.tensor = 3; }},
      {"a hole among the layers", [](Plan& p) { p.layers.pop_back(); }},
      {"a stage too many", [](Plan& p) { ++p.layers.back().stage; }},
      {"layers kept otherwise",
       [](Plan& p) {
         for (PlannedLayers& l : p.layers)
           l.strategy.recompute = l.strategy.recompute == Recompute::full ? Recompute::none : Recompute::full;
       }},
      {"a strategy outside the space", [](Plan& p) { p.layers[0].strategy.states = Tier::disk; }},
      {"other parameters", [](Plan& p) { ++p.parameters; }},
  };
  for (const auto& [what, change] : changes) {
    Plan changed = plan;
    change(changed);
    const PlanAudit a = audit_plan(c.spec, c.cluster, c.request, changed);
    EXPECT_FALSE(a.accepted) << what;
    EXPECT_FALSE(a.reason.empty()) << what;
  }
}

// A space that is narrower than the plan's own does not take it.
TEST(Audit, JudgesTheSpaceThatIsAsked) {
  Case c = small_case();
  const PlanAnswer answer = plan_model(c.spec, c.cluster, c.request);
  ASSERT_TRUE(answer.found);
  c.request.space.zero = {answer.plan.layers.front().strategy.zero == 0 ? 1 : 0};
  EXPECT_FALSE(audit_plan(c.spec, c.cluster, c.request, answer.plan).plan_holds);
}

}  // namespace
}  // namespace tern
