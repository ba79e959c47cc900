#include "planner/judges/audit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/source_dir_testing.h"
#include "plan/plan_file.h"
#include "program/plan_program.h"
#include "spec/presets.h"
#include "spec/recompute.h"

namespace tern {
namespace {

struct AuditCase {
  ModelSpec spec;
  Cluster cluster;
  PlanRequest request;
};

AuditCase small_case() {
  AuditCase c{.spec = *preset_model("llama-3-8b"),
              .cluster = read_cluster(source_dir() + "/examples/hardware/h100-node.toml"),
              .request = {.model = "llama-3-8b"}};
  c.request.job = {.batch = 16, .seq = 4096};
  c.request.space.states = c.request.space.activations = {Tier::device};
  return c;
}

// The audit and the search count the same choices, and agree about the plan; what the audit proves is near the search's
// bound.
TEST(Audit, AcceptsWhatTheSearchFinds) {
  const AuditCase c = small_case();
  const PlanAnswer answer = plan_model(c.spec, c.cluster, c.request);
  ASSERT_TRUE(answer.found);
  Plan plan = answer.plan;
  const PlanAudit first = audit_plan(c.spec, c.cluster, c.request, plan);
  EXPECT_TRUE(first.plan_holds()) << first.reason;
  EXPECT_EQ(first.choices, plan.counts.legal);
  EXPECT_LE(first.proven_ps, plan.bound_ps);
  EXPECT_GT(static_cast<double>(first.proven_ps), 0.95 * static_cast<double>(plan.bound_ps));
  plan.bound_ps = first.proven_ps;
  const PlanAudit again = audit_plan(c.spec, c.cluster, c.request, plan);
  EXPECT_TRUE(again.accepted()) << again.reason;
  EXPECT_EQ(again.count(AuditedBy::open), 0);
}

TEST(Audit, RejectsWhatWasChanged) {
  const AuditCase c = small_case();
  const PlanAnswer answer = plan_model(c.spec, c.cluster, c.request);
  ASSERT_TRUE(answer.found);
  Plan plan = answer.plan;
  plan.bound_ps = audit_plan(c.spec, c.cluster, c.request, plan).proven_ps;
  ASSERT_TRUE(audit_plan(c.spec, c.cluster, c.request, plan).accepted());
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
      {"another optimizer", [](Plan& p) { p.job.optimizer = UpdateRule::sgd; }},
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
    EXPECT_FALSE(a.accepted()) << what;
    EXPECT_FALSE(a.reason.empty()) << what;
  }
  AuditCase other = c;
  other.request.job.batch = 32;
  EXPECT_EQ(audit_plan(other.spec, other.cluster, other.request, plan).reason, "it is for --batch 16, not 32");
}

// Every leaf of the file, so that a new key cannot be forgotten: judged, or named among those that are not.
TEST(Audit, EveryKeyOfThePlanIsJudgedOrSaidNotToBe) {
  AuditCase c = small_case();
  c.request.space.max_tensor = 2, c.request.space.max_context = 1;
  c.request.space.schedules = {PipelineSchedule::one_f_one_b, PipelineSchedule::interleaved};
  for (const int least_stages : {1, 2}) {
    if (least_stages == 2) c.request.space.zero = {0};  // then one stage does not do
    Plan plan = plan_model(c.spec, c.cluster, c.request).plan;
    ASSERT_GE(plan.choice.num_stages, least_stages);
    plan.bound_ps = audit_plan(c.spec, c.cluster, c.request, plan).proven_ps;
    plan.restrictions = {"none"};
    plan.program = program_of_plan(c.spec, c.cluster, plan);
    ASSERT_TRUE(plan.program);
    plan.error = {.software = "some", .rows = 3, .low_ps = plan.step_ps, .high_ps = plan.step_ps, .median = 0.1};
    const auto verdict = [&](const nlohmann::json& json) {
      return audit_plan(c.spec, c.cluster, c.request, parse_plan(json.dump(), "changed")).verdict;
    };
    const std::string text = plan_json(plan, Json{{"mfu", 0.5}});
    const nlohmann::json flat = nlohmann::json::parse(text).flatten();
    ASSERT_EQ(verdict(flat.unflatten()), Verdict::accepted);
    int rejected = 0;
    for (const auto& [key, value] : flat.items()) {
      std::string name = key.substr(1);
      std::replace(name.begin(), name.end(), '/', '.');
      const auto unjudged = unjudged_keys();
      if (std::any_of(unjudged.begin(), unjudged.end(), [&](std::string_view u) { return name.starts_with(u); }))
        continue;
      nlohmann::json changed = flat;
      if (value.is_number_integer())
        changed[key] = value.get<int64_t>() + 1;
      else if (value.is_number())
        changed[key] = value.get<double>() * 1.001 + 0.001;
      else if (value.is_boolean())
        changed[key] = !value.get<bool>();
      else if (value.is_string())
        changed[key] = value.get<std::string>() + "x";
      else
        continue;  // an empty list
      try {
        EXPECT_NE(verdict(changed.unflatten()), Verdict::accepted) << key;
      } catch (const Error& e) { EXPECT_EQ(e.kind(), ErrorKind::bad_file) << key; }
      ++rejected;
    }
    EXPECT_GT(rejected, 40);
    for (const std::string_view name : unjudged_keys()) {
      std::string pointer = "/" + std::string(name);
      std::replace(pointer.begin(), pointer.end(), '.', '/');
      EXPECT_TRUE(nlohmann::json::parse(text).contains(nlohmann::json::json_pointer(pointer))) << name;
    }
  }
}

// Of what is not judged, at least what contradicts itself or the rest.
TEST(Audit, RivalsMayNotContradictThePlan) {
  const AuditCase c = small_case();
  Plan plan = plan_model(c.spec, c.cluster, c.request).plan;
  plan.bound_ps = audit_plan(c.spec, c.cluster, c.request, plan).proven_ps;
  const auto found =
      std::find_if(plan.families.begin(), plan.families.end(), [](const PlannedFamily& f) { return f.found; });
  ASSERT_NE(found, plan.families.end());
  const auto at = static_cast<size_t>(found - plan.families.begin());
  const std::pair<const char*, std::function<void(PlannedFamily&)>> changes[] = {
      {"a bound above its own plan", [](PlannedFamily& f) { f.bound_ps = f.step_ps + 1; }},
      {"a bound below the plan's", [&](PlannedFamily& f) { f.bound_ps = plan.bound_ps - 1; }},
      {"faster than the best", [&](PlannedFamily& f) { f.step_ps = f.bound_ps = plan.step_ps - 1; }},
      {"no room, and a plan", [](PlannedFamily& f) { f.fits = false; }},
      {"a plan without a choice", [](PlannedFamily& f) { f.choice.clear(); }},
  };
  for (const auto& [what, change] : changes) {
    Plan changed = plan;
    change(changed.families[at]);
    EXPECT_EQ(audit_plan(c.spec, c.cluster, c.request, changed).verdict, Verdict::rejected) << what;
  }
  Plan changed = plan;
  changed.model_bound_ps = plan.step_ps + 1;
  EXPECT_EQ(audit_plan(c.spec, c.cluster, c.request, changed).verdict, Verdict::rejected);
}

// A space that is narrower than the plan's own does not take it, and says what is outside; the count of choices is not
// asked for that.
TEST(Audit, JudgesTheSpaceThatIsAsked) {
  AuditCase c = small_case();
  c.request.space.zero = {0};
  c.request.space.max_tensor = 2, c.request.space.max_context = 1;
  c.request.space.schedules = {PipelineSchedule::one_f_one_b, PipelineSchedule::interleaved};
  const Plan plan = plan_model(c.spec, c.cluster, c.request).plan;
  ASSERT_GT(plan.choice.num_stages, 1);
  const std::pair<const char*, std::function<void(SearchSpace&, Plan&)>> narrower[] = {
      {"zero", [&](SearchSpace& s, Plan& p) { s.zero = {p.layers.front().strategy.zero == 0 ? 1 : 0}; }},
      {"schedules", [&](SearchSpace& s, Plan&) { s.schedules = {PipelineSchedule::gpipe}; }},
      {"stages", [&](SearchSpace& s, Plan& p) { s.max_stages = p.choice.num_stages - 1; }},
      {"micro-batch", [&](SearchSpace& s, Plan& p) { s.max_micro_batch = p.choice.micro_batch - 1; }},
      {"tensor", [&](SearchSpace& s, Plan& p) { s.max_tensor = p.choice.mesh.tensor - 1; }},
      {"chunks",
       [](SearchSpace& s, Plan& p) {
         s.max_chunks = 2, p.choice.schedule = PipelineSchedule::interleaved, p.choice.chunks_per_stage = 3;
       }},
      {"ulysses", [](SearchSpace& s, Plan& p) { s.ulysses = false, p.choice.mesh.ulysses = true; }},
      {"experts", [](SearchSpace&, Plan& p) { p.choice.mesh.expert = 2; }},
      {"operations", [](SearchSpace&, Plan& p) { p.choice.num_micro = 1 << 30; }},
  };
  for (const auto& [what, change] : narrower) {
    AuditCase n = c;
    Plan p = plan;
    change(n.request.space, p);
    const PlanAudit a = audit_plan(n.spec, n.cluster, n.request, p);
    EXPECT_EQ(a.verdict, Verdict::rejected) << what;
    EXPECT_EQ(a.choices, 0) << what << ": rejected before anything is counted";
    EXPECT_NE(a.reason, "") << what;
  }
}

// The order of nodes makes a plan faster than any on nodes of one type: what was bounded is not the whole space.
TEST(Audit, OverUnlikeNodesItNeverAccepts) {
  AuditCase c{.spec = *preset_model("llama-2-7b"),
              .cluster = read_cluster(source_dir() + "/examples/hardware/mixed-desk.toml"),
              .request = {.model = "llama-2-7b"}};
  c.request.job = {.batch = 8, .seq = 1024};
  c.request.space.max_tensor = c.request.space.max_context = 2, c.request.space.max_micro_batch = 1;
  c.request.space.schedules = {PipelineSchedule::one_f_one_b};
  c.request.space.activations = {Tier::device};
  Cluster alone = c.cluster;
  alone.groups.resize(1);
  Plan plan = plan_model(c.spec, alone, c.request).plan;
  ASSERT_GT(plan.step_ps, 0);
  c.request.seconds = 3;  // enough for a better plan over all nodes; the proof is not asked for
  const PlanAnswer mixed = plan_model(c.spec, c.cluster, c.request);
  c.request.seconds = std::numeric_limits<double>::infinity();
  ASSERT_LT(mixed.plan.step_ps, plan.step_ps);
  EXPECT_EQ(audit_plan(c.spec, c.cluster, c.request, mixed.plan).verdict, Verdict::not_judged);
  plan.bound_ps = audit_plan(c.spec, alone, c.request, plan).proven_ps;
  plan.idle_devices = c.cluster.num_devices() - plan.choice.devices();
  plan.families.clear();
  plan.counts = {.legal = mixed.plan.counts.legal, .by_bound = mixed.plan.counts.legal};
  plan.bound_ps = audit_plan(c.spec, c.cluster, c.request, plan).proven_ps;
  ASSERT_GT(plan.bound_ps, mixed.plan.step_ps) << "a false bound, that pipelines on nodes of one type do not refute";
  const PlanAudit a = audit_plan(c.spec, c.cluster, c.request, plan);
  EXPECT_EQ(a.verdict, Verdict::in_part) << a.reason;
  EXPECT_FALSE(a.accepted());
  plan.counts.legal = plan.counts.by_bound = 5;
  EXPECT_EQ(audit_plan(c.spec, c.cluster, c.request, plan).verdict, Verdict::rejected);
}

// What the time did not reach is bounded by its work, which is more than nothing.
TEST(Audit, WithoutTimeTheWorkIsStillABound) {
  AuditCase c = small_case();
  const PlanAnswer answer = plan_model(c.spec, c.cluster, c.request);
  c.request.seconds = 1e-9;
  const PlanAudit a = audit_plan(c.spec, c.cluster, c.request, answer.plan);
  EXPECT_EQ(a.verdict, Verdict::unproven);
  EXPECT_TRUE(a.late);
  EXPECT_EQ(a.choices, answer.plan.counts.legal);
  EXPECT_GT(a.proven_ps, answer.plan.step_ps / 2);
  EXPECT_LE(a.proven_ps, answer.plan.bound_ps);
}

}  // namespace
}  // namespace tern
