#include "planner/outer/plan_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>

#include "base/error.h"
#include "base/rng.h"
#include "base/source_dir_testing.h"
#include "plan/cost_model.h"
#include "plan/legality.h"
#include "plan/plan_file.h"
#include "planner/instance/brute_force_test.h"
#include "planner/instance/price.h"
#include "planner/outer/answer_impl.h"
#include "planner/outer/build_instance_impl.h"
#include "planner/outer/choice_bounds_impl.h"
#include "planner/outer/first_plans_impl.h"
#include "planner/outer/twin_test.h"
#include "spec/presets.h"
#include "spec/recompute.h"

namespace tern {
namespace {

struct PlanModelCase {
  const char* name;
  int64_t layers, devices, batch, seq, memory;
  std::vector<PipelineSchedule> schedules;
  std::vector<int> zero;
  std::vector<Recompute> recompute;
  std::vector<Tier> states, activations;
  bool tied = false;
};

const Tier kDevice = Tier::device, kHost = Tier::host;

TEST(PlanModel, EqualsPlainLoopsOverEverything) {
  const std::vector<PlanModelCase> cases{
      {"roomy",
       1,
       4,
       4,
       1024,
       70 * kGB,
       {PipelineSchedule::one_f_one_b, PipelineSchedule::gpipe},
       {0, 1},
       {Recompute::none},
       {kDevice},
       {kDevice}},
      {"recompute",
       2,
       2,
       4,
       4096,
       12 * kGB,
       {PipelineSchedule::one_f_one_b},
       {0, 3},
       {Recompute::none, Recompute::full},
       {kDevice},
       {kDevice}},
      {"tight",
       2,
       4,
       4,
       4096,
       6 * kGB,
       {PipelineSchedule::gpipe, PipelineSchedule::one_f_one_b},
       {1, 3},
       {Recompute::none, Recompute::full},
       {kDevice},
       {kDevice}},
      {"offload",
       2,
       2,
       2,
       4096,
       8 * kGB,
       {PipelineSchedule::one_f_one_b},
       {0, 2},
       {Recompute::none},
       {kDevice, kHost},
       {kDevice, kHost}},
      {"tied",
       3,
       2,
       4,
       1024,
       3 * kGB,
       {PipelineSchedule::one_f_one_b, PipelineSchedule::deep_one_f_one_b},
       {0, 1},
       {Recompute::none, Recompute::attention},
       {kDevice},
       {kDevice},
       true},
      {"zero bubble",
       2,
       2,
       4,
       2048,
       14 * kGB,
       {PipelineSchedule::zb_h1, PipelineSchedule::zb_h2},
       {0, 1},
       {Recompute::none, Recompute::full},
       {kDevice},
       {kDevice}},
      {"three devices",
       2,
       3,
       6,
       1024,
       20 * kGB,
       {PipelineSchedule::one_f_one_b},
       {0, 1, 2},
       {Recompute::none},
       {kDevice},
       {kDevice}},
  };
  for (const PlanModelCase& c : cases) {
    const ModelSpec spec = small_model(c.layers, c.tied ? "gpt2" : "llama-2-7b");
    const Cluster cluster = small_cluster(c.devices, c.memory);
    PlanRequest request{.model = c.name, .job = {.batch = c.batch, .seq = c.seq}};
    request.space.schedules = c.schedules, request.space.zero = c.zero, request.space.recompute = c.recompute;
    request.space.states = c.states, request.space.activations = c.activations;
    const Best want = loops_over_everything(spec, cluster, request.job, request.space);
    const PlanAnswer got = plan_model(spec, cluster, request);
    ASSERT_GT(want.priced, 50) << c.name;
    ASSERT_TRUE(got.found) << c.name;
    EXPECT_EQ(got.plan.step_ps, want.makespan)
        << c.name << ": " << to_string(got.plan.choice) << ", plain loops: " << to_string(want.choice);
    EXPECT_EQ(got.plan.bound_ps, want.makespan) << c.name;
    EXPECT_EQ(got.plan.counts.open, 0) << c.name;
  }
}

// Experts with a declared capacity, and a table shared by the first and the last layer, under random jobs and memory.
TEST(PlanModelSlow, ExpertsAndTiedTablesEqualPlainLoops) {
  int found[2]{}, none[2]{}, split = 0;
  for (uint64_t seed = 0; seed < 240; ++seed) {
    auto draw = [seed, i = uint64_t{0}](int64_t n) mutable {
      return static_cast<int64_t>(random_u64({17, seed}, i++) % static_cast<uint64_t>(n));
    };
    const bool tied = seed % 2 == 0;
    const ModelSpec spec = small_model(1, tied ? "gpt2" : "mixtral-8x7b");
    PlanRequest request{.model = "x", .job = {.batch = 2 << draw(2), .seq = 256 << draw(3)}};
    request.job.capacity_factor = 1 + 0.25 * static_cast<double>(draw(4));
    request.space.schedules = {draw(2) ? PipelineSchedule::one_f_one_b : PipelineSchedule::gpipe};
    request.space.zero = {0, static_cast<int>(1 + draw(3))};
    request.space.recompute = {Recompute::none, draw(2) ? Recompute::attention : Recompute::full};
    request.space.states = request.space.activations = {kDevice};
    const Cluster cluster = small_cluster(2, tied ? kGB * (3 + draw(20)) / 10 : kGB * (6 + draw(30)));
    const Best want = loops_over_everything(spec, cluster, request.job, request.space);
    const PlanAnswer got = plan_model(spec, cluster, request);
    SCOPED_TRACE(testing::Message() << "seed " << seed << (tied ? ", tied" : ", experts"));
    ASSERT_EQ(got.found, want.makespan < std::numeric_limits<int64_t>::max());
    ++(got.found ? found : none)[tied];
    if (!got.found) continue;
    EXPECT_EQ(got.plan.step_ps, want.makespan) << to_string(got.plan.choice) << ", loops: " << to_string(want.choice);
    EXPECT_EQ(got.plan.bound_ps, want.makespan);
    split += got.plan.choice.mesh.expert > 1;
  }
  EXPECT_GE(found[0], 60);
  EXPECT_GE(found[1], 60);
  EXPECT_GE(std::min(none[0], none[1]), 1);
  EXPECT_GT(split, 10);
}

// Every choice, every assignment that fits: none is below the bounds that close choices.
TEST(PlanModel, BoundsOfChoicesAreBelowEveryAssignment) {
  int64_t choices = 0, near = 0;
  for (const int64_t memory : {12 * kGB, 40 * kGB})
    for (const int64_t layers : {2, 4}) {
      const ModelSpec spec = small_model(layers);
      PlanRequest request{.model = "x", .job = {.batch = 4, .seq = 2048}};
      request.space.zero = {0, 3}, request.space.recompute = {Recompute::none, Recompute::full};
      request.space.max_chunks = 2, request.space.max_tensor = 2, request.space.max_context = 1;
      request.space.states = request.space.activations = {kDevice};
      const SpaceOfChoices space = enumerate_choices(spec, small_cluster(4, memory), request);
      BuiltInstance built;
      for (const Candidate& c : space.candidates) {
        if (layers == 4 && c.num_stages < 3) continue;  // the many assignments of few stages
        build_instance(space, c, built);
        Pricer price(built.instance);
        int64_t best = std::numeric_limits<int64_t>::max();
        for_each_assignment(built.instance, [&](const Assignment& a) {
          const Priced p = price(a);
          if (p.fits()) best = std::min(best, p.makespan);
        });
        const double step = 1e12, per_byte = step / 12e9;
        for (const double mu : {0.0, 0.01, 0.1, 1.0})
          EXPECT_LE(crowding_bound(space, c, mu * per_byte), best) << to_string(choice_of(space, c)) << " mu " << mu;
        EXPECT_LE(c.bound, best) << to_string(choice_of(space, c));
        near += static_cast<double>(crowding_bound(space, c, 0)) > 0.9 * static_cast<double>(best);
        ++choices;
      }
    }
  EXPECT_GT(choices, 60);
  EXPECT_GT(near, 5);
}

PlanRequest seven_b() {
  PlanRequest r{.model = "llama-2-7b", .job = {.batch = 32, .seq = 2048}};
  r.space.schedules = {PipelineSchedule::one_f_one_b, PipelineSchedule::gpipe};
  r.space.states = r.space.activations = {Tier::device};
  r.space.ulysses = false;
  return r;
}

TEST(PlanModelSlow, TheSameInputGivesTheSameBytesWhateverTheThreads) {
  const ModelSpec spec = *preset_model("llama-2-7b");
  const Cluster cluster = small_cluster(8, 40 * kGB);
  PlanRequest request = seven_b();
  const std::string once = plan_json(plan_model(spec, cluster, request).plan);
  EXPECT_EQ(plan_json(plan_model(spec, cluster, request).plan), once);
  request.threads = 3;
  EXPECT_EQ(plan_json(plan_model(spec, cluster, request).plan), once);
}

TEST(PlanModelSlow, ASmallerSpaceOrMachineIsNeverBetter) {
  const ModelSpec spec = *preset_model("llama-2-7b");
  PlanRequest request = seven_b();
  const auto step = [&](const PlanRequest& r, const Cluster& c) {
    const PlanAnswer a = plan_model(spec, c, r);
    return a.found ? a.plan.step_ps : std::numeric_limits<int64_t>::max();
  };
  const Cluster machine = small_cluster(8, 30 * kGB);
  // Where a choice was left open the promise is the bound; it is within a percent of the plan.
  const Plan best = plan_model(spec, machine, request).plan;
  EXPECT_LT(best.simulator_gap(), 0.01);
  const int64_t full = best.counts.open ? best.bound_ps : best.step_ps;
  PlanRequest fewer = request;
  fewer.space.recompute = {Recompute::none};
  EXPECT_GE(step(fewer, machine), full);
  fewer = request, fewer.space.zero = {0, 1};
  EXPECT_GE(step(fewer, machine), full);
  fewer = request, fewer.space.max_tensor = 1;
  EXPECT_GE(step(fewer, machine), full);
  EXPECT_GE(step(request, small_cluster(8, 20 * kGB)), full);
  EXPECT_GE(step(request, small_cluster(7, 30 * kGB)), full);
  Cluster slow = machine;
  slow.nodes[0].link.bandwidth /= 3;
  EXPECT_GE(step(request, slow), full);
}

// What a plan says it holds is the sum of the closed forms of its layers, the closed form of 1F1B in flight.
TEST(PlanModel, MemoryOfAPlanIsTheSumOfItsLayers) {
  const ModelSpec spec = *preset_model("llama-2-7b");
  const Cluster cluster = small_cluster(8, 22 * kGB);
  PlanRequest request = seven_b();
  request.space.schedules = {PipelineSchedule::one_f_one_b};
  request.space.zero = {1};
  request.job.batch = 8, request.job.seq = 8192;
  const PlanAnswer answer = plan_model(spec, cluster, request);
  ASSERT_TRUE(answer.found);
  const Plan& p = answer.plan;
  const Machine m = machine_of(cluster, 0);
  const LayerCosts costs(spec, p.job, m, p.choice.mesh, p.choice.micro_batch);
  const std::vector<Layer> layers = layers_of(spec);
  for (int s = 0; s < p.choice.num_stages; ++s) {
    int64_t persistent = 0, held = 0, transient = 0;
    for (const PlannedLayers& run : p.layers)
      for (int u = run.first; run.stage == s && u < run.first + run.count; ++u) {
        const CostVector v = costs.cost(layers[static_cast<size_t>(u)], run.strategy, p.choice.num_stages > 1);
        persistent += v.persistent[0], held += v.held[0], transient = std::max(transient, v.transient);
      }
    const int64_t in_flight = std::min<int64_t>(p.choice.num_micro, p.choice.num_stages - s);
    EXPECT_EQ(p.ranks[static_cast<size_t>(s)].peak[0], persistent + in_flight * held + transient) << s;
    EXPECT_LE(p.ranks[static_cast<size_t>(s)].peak[0], p.ranks[static_cast<size_t>(s)].capacity[0]);
  }
}

TEST(PlanModel, EqualLayersAreRecomputedUnequallyWhereMemoryBinds) {
  PlanRequest request = seven_b();
  request.space.max_tensor = request.space.max_context = 1;
  request.job = {.batch = 8, .seq = 8192};
  request.space.zero = {3};
  const PlanAnswer a = plan_model(*preset_model("llama-2-7b"), small_cluster(8, 40 * kGB), request);
  ASSERT_TRUE(a.found);
  std::map<Recompute, int> of_blocks;
  for (const PlannedLayers& l : a.plan.layers)
    if (l.first > 0) of_blocks[l.strategy.recompute] += l.count;
  EXPECT_GT(of_blocks.size(), 1u) << plan_json(a.plan);
  EXPECT_NE(a.plan.binds.find("device memory"), std::string::npos) << a.plan.binds;
}

TEST(PlanModel, WhatDoesNotFitSaysWhatIsMissing) {
  const ModelSpec spec = *preset_model("llama-2-7b");
  PlanRequest request = seven_b();
  const PlanAnswer a = plan_model(spec, small_cluster(2, 20 * kGB), request);
  ASSERT_FALSE(a.found);
  EXPECT_TRUE(a.proven_infeasible);
  EXPECT_GT(a.no_fit.missing_bytes, 0);
  EXPECT_FALSE(a.no_fit.choice.empty());
  // With that much more on each device something fits; it lacked no less.
  EXPECT_TRUE(plan_model(spec, small_cluster(2, 20 * kGB + a.no_fit.missing_bytes), request).found);
  EXPECT_FALSE(plan_model(spec, small_cluster(2, 20 * kGB + a.no_fit.missing_bytes / 2), request).found);
}

TEST(PlanModelSlow, AnInterruptLeavesAPlanWithARightGap) {
  const ModelSpec spec = *preset_model("llama-2-7b");
  const Cluster cluster = small_cluster(8, 22 * kGB);
  PlanRequest request = seven_b();
  const int64_t best = plan_model(spec, cluster, request).plan.step_ps;
  int found = 0, interrupted = 0;
  for (double seconds = 0.001; found == 0 || seconds < 0.1; seconds *= 2) {
    request.seconds = seconds;
    const PlanAnswer a = plan_model(spec, cluster, request);
    interrupted += a.interrupted;
    if (!a.found) {
      EXPECT_FALSE(a.proven_infeasible);
      continue;
    }
    ++found;
    EXPECT_LE(a.plan.bound_ps, best) << seconds;
    EXPECT_GE(a.plan.step_ps, best) << seconds;
    EXPECT_EQ(parse_plan(plan_json(a.plan), "p"), a.plan);
  }
  EXPECT_GE(interrupted, 1);
}

TEST(PlanModelSlow, RivalsAreNeverFasterThanTheirBounds) {
  const PlanAnswer a = plan_model(*preset_model("llama-2-7b"), small_cluster(8, 30 * kGB), seven_b());
  ASSERT_TRUE(a.found);
  EXPECT_GE(a.plan.families.size(), 5u);
  for (const PlannedFamily& f : a.plan.families) {
    if (f.found) { EXPECT_GE(f.step_ps, f.bound_ps) << f.feature; }
    if (f.fits) { EXPECT_GE(f.bound_ps, a.plan.bound_ps) << f.feature; }
    EXPECT_EQ(f.found, !f.choice.empty()) << f.feature;
  }
}

TEST(PlanModelSlow, MixturesAndEncodersHavePlans) {
  PlanRequest request{.model = "mixtral-8x7b", .job = {.batch = 32, .seq = 2048}};
  request.space.schedules = {PipelineSchedule::one_f_one_b};
  request.space.states = request.space.activations = {Tier::device};
  request.space.ulysses = false, request.space.max_stages = 4, request.seconds = 5;
  Cluster cluster = read_cluster(source_dir() + "/examples/hardware/h100-16384.toml");
  cluster.groups[0].count = 4;
  const PlanAnswer moe = plan_model(*preset_model("mixtral-8x7b"), cluster, request);
  ASSERT_TRUE(moe.found);
  EXPECT_GT(moe.plan.choice.mesh.expert, 1) << to_string(moe.plan.choice);
  request.model = "t5-large", request.job.seq = 512;
  EXPECT_TRUE(plan_model(*preset_model("t5-large"), small_cluster(4, 20 * kGB), request).found);
}

TEST(PlanModel, NoLegalMeshIsAnErrorWithRules) {
  PlanRequest request{.model = "x", .job = {.batch = 4, .seq = 2048}};
  request.space.schedules = {};
  EXPECT_THROW(plan_model(*preset_model("gpt2"), small_cluster(2, 20 * kGB), request), Error);
}

}  // namespace
}  // namespace tern
