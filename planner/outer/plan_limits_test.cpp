// Where `tern plan` ends for want of time, counts or memory, and what it then says.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "base/source_dir_testing.h"
#include "plan/legality.h"
#include "plan/plan_file.h"
#include "planner/instance/price.h"
#include "planner/judges/audit.h"
#include "planner/outer/answer_impl.h"
#include "planner/outer/choice_bounds_impl.h"
#include "planner/outer/first_plans_impl.h"
#include "planner/outer/twin_test.h"
#include "spec/presets.h"
#include "spec/recompute.h"

namespace tern {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

bool says(const Plan& p, std::string_view words) {
  return std::any_of(p.restrictions.begin(), p.restrictions.end(),
                     [&](const std::string& r) { return r.find(words) != std::string::npos; });
}

PlanRequest on_device(PipelineSchedule schedule, int64_t batch, int64_t seq) {
  PlanRequest r{.model = "x", .job = {.batch = batch, .seq = seq}};
  r.space.schedules = {schedule};
  r.space.states = r.space.activations = {Tier::device};
  r.space.max_tensor = r.space.max_context = 1;
  return r;
}

// Zero bubble: the search may find nothing within its counts. That is no proof.
TEST(PlanLimits, NothingFoundIsNotNothingFits) {
  int proven = 0, undecided = 0, found = 0;
  int64_t least_that_fits = INT64_MAX, most_proven = 0;
  for (int64_t memory = 12; memory <= 26; ++memory) {
    PlanRequest request = on_device(PipelineSchedule::zb_h2, 16, 2048);
    request.space.zero = {0};
    const PlanAnswer a = plan_model(small_model(5), small_cluster(4, memory * kGB / 2), request);
    if (a.found) least_that_fits = std::min(least_that_fits, memory);
    if (a.proven_infeasible) most_proven = memory;
    if (!a.found) { EXPECT_EQ(a.proven_infeasible, a.open == 0); }
    ++(a.found ? found : a.proven_infeasible ? proven : undecided);
  }
  EXPECT_LT(most_proven, least_that_fits);
  EXPECT_GE(std::min(proven, found), 3);
  EXPECT_GE(undecided, 1);
}

// A step beyond what 63 bits of picoseconds hold is refused, with the file; one of days is counted.
TEST(PlanLimits, StepsBeyondWhatIsCountedAreRefused) {
  Cluster cluster = small_cluster(4, 60 * kGB);
  PlanRequest request = on_device(PipelineSchedule::one_f_one_b, 64, 2048);
  const auto message = [&] {
    try {
      const PlanAnswer a = plan_model(small_model(2), cluster, request);
      return a.found ? a.plan.step_ps > 0 && a.plan.bound_ps > 0 ? std::string("counted") : "negative" : "nothing";
    } catch (const Error& e) { return std::string(e.what()); }
  };
  const auto peak = [&](double flops) {
    for (auto& p : cluster.devices[0].peak) p.second = flops;
  };
  EXPECT_EQ(message(), "counted");
  peak(1e10);  // about half a day
  EXPECT_EQ(message(), "counted");
  for (const double flops : {1e8, 1e7, 1e6}) {
    peak(flops);
    EXPECT_NE(message().find("h100-node.toml"), std::string::npos) << message();
    EXPECT_NE(message().find("FLOP/s"), std::string::npos) << message();
  }
  peak(989e12);
  for (const double rate : {1e3, 1e5}) {
    cluster.devices[0].memory_bandwidth = rate;
    EXPECT_NE(message().find("not counted"), std::string::npos) << message();
  }
  cluster.devices[0].memory_bandwidth = 3e12;
  cluster.devices[0].launch_ps = int64_t{3600} * 1'000'000'000'000;
  EXPECT_NE(message().find("not counted"), std::string::npos) << message();
}

TEST(PlanLimits, AnInstanceOfALongerStepIsRefused) {
  Instance in{.num_micro = 8, .cost = {{CostVector{.forward = int64_t{1} << 56}}, {CostVector{.forward = 1}}}};
  in.within = in.across = {{EdgeCost{}}};
  in.capacity = {TierBytes{}};
  EXPECT_NO_THROW(check_instance(in));
  in.num_micro = 16;
  EXPECT_THROW(check_instance(in), Error);
}

// "Any plan that fits" is looked for by counted work: where that is too little nothing is found, and no clock decides.
TEST(PlanLimits, AnyFitEndsByCountedWork) {
  PlanRequest request{.model = "x", .job = {.batch = 64, .seq = 2048}};
  const auto within = [&](int64_t work, int64_t memory) {
    request.any_fit_within = work;
    return plan_model(small_model(8), small_cluster(8, memory), request);
  };
  const PlanAnswer found = within(10'000'000, 8 * kGB);
  ASSERT_TRUE(found.found);
  EXPECT_EQ(found.plan.choice.micro_batch, 1) << "where memory is least";
  EXPECT_LT(found.work, 10'000'000);
  // Exactly so much is enough, and less is not.
  EXPECT_TRUE(within(found.work, 8 * kGB).found);
  // Wherever the work runs out: among the tables, between two choices or within the last one.
  for (int64_t part = 0; part < 16; ++part) {
    const int64_t work = 1 + (found.work - 2) * part / 16;
    const PlanAnswer less = within(work, 8 * kGB);
    EXPECT_FALSE(less.found) << work;
    EXPECT_TRUE(less.interrupted) << work;
    EXPECT_FALSE(less.proven_infeasible) << work;
  }
  // Also where none fits, and all choices are tried in vain if there is work enough.
  constexpr int64_t kTooSmall = 1'426'000'000;
  const PlanAnswer none = within(10'000'000, kTooSmall);
  EXPECT_TRUE(!none.found && !none.interrupted);
  for (int64_t left = 1; left < none.work; left *= 2)
    EXPECT_TRUE(within(none.work - left, kTooSmall).interrupted) << left;
  // A choice that is taken fits: with its axes alone there is a plan.
  request.any_fit_within = 0;
  const OuterChoice& c = found.plan.choice;
  request.space = pin(request.space, axes_of(c, {}));
  EXPECT_TRUE(plan_model(small_model(8), small_cluster(8, 8 * kGB), request).found);
}

TEST(PlanLimits, ManyMicroBatchesAreNoReasonToBeLate) {
  PlanRequest request{.model = "x", .job = {.batch = 720720, .seq = 2048}};
  request.space.states = request.space.activations = {Tier::device};
  request.seconds = 2;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(plan_model(small_model(8), small_cluster(8, 40 * kGB), request).found);
  Cluster huge = small_cluster(8, 40 * kGB);
  huge.groups[0].count = 1 << 27;
  huge.network = {{"x", 1 << 27, 1000, 1}};
  request.job.batch = 2147483647;  // a prime
  EXPECT_THROW(plan_model(small_model(8), huge, request), Error);
  request.job.batch = 1 << 30;
  plan_model(small_model(8), huge, request);
  EXPECT_LT(seconds_since(start), 20);
}

// Pipelines of more operations than are simulated are bounded: what is said of the rest says so.
TEST(PlanLimits, LongPipelinesAreBoundedAndSaidSo) {
  PlanRequest request = on_device(PipelineSchedule::one_f_one_b, 1 << 20, 256);
  request.space.max_micro_batch = 2;
  const Cluster cluster = small_cluster(2, 60 * kGB);
  const SpaceOfChoices space = enumerate_choices(small_model(1), cluster, request);
  ASSERT_GT(space.bounded.size(), 0u);
  ASSERT_GT(space.candidates.size(), 0u);
  const PlanAnswer a = plan_model(small_model(1), cluster, request);
  ASSERT_TRUE(a.found);
  EXPECT_TRUE(says(a.plan, "operations")) << plan_json(a.plan);
  for (const Candidate& c : space.bounded) EXPECT_LE(c.bound, 4 * a.plan.step_ps);
  request.job.batch = 64;
  EXPECT_FALSE(says(plan_model(small_model(1), cluster, request).plan, "operations"));
  request.job.batch = 1 << 24;
  request.space.max_micro_batch = 1, request.space.max_stages = 1;
  EXPECT_THROW(plan_model(small_model(1), small_cluster(1, 60 * kGB), request), Error);
}

// Choices that are left out are left out by the audit too, or its count would be another.
TEST(PlanLimits, TheAuditLeavesOutTheSame) {
  Cluster cluster = small_cluster(4, 60 * kGB);
  int left_out = 0, judged = 0;
  for (const double flops : {989e12, 5e9, 2e9, 1e9, 5e8}) {
    for (auto& p : cluster.devices[0].peak) p.second = flops;
    PlanRequest request = on_device(PipelineSchedule::one_f_one_b, 64, 2048);
    request.space.max_tensor = 4;
    const ModelSpec spec = small_model(2);
    const SpaceOfChoices space = enumerate_choices(spec, cluster, request);
    left_out += space.too_long > 0 && !space.candidates.empty();
    if (space.candidates.empty()) continue;
    const PlanAnswer a = plan_model(spec, cluster, request);
    ASSERT_TRUE(a.found);
    EXPECT_EQ(audit_plan(spec, cluster, request, a.plan).choices, a.plan.counts.legal) << flops;
    ++judged;
  }
  EXPECT_GE(left_out, 1);
  EXPECT_GE(judged, 2);
}

// The bound that needs no enumeration is below every plan, and says something.
TEST(PlanLimitsSlow, WorkAtThePeakIsBelowEveryPlan) {
  for (const char* preset : {"gpt2", "llama-2-7b", "mixtral-8x7b", "t5-large"})
    for (const int64_t adapters : {0, 16}) {
      ModelSpec spec = *preset_model(preset);
      if (adapters) spec = with_adapters(std::move(spec), adapters);
      for (const double capacity : {0.5, 1.25}) {
        PlanRequest request{.model = preset, .job = {.batch = 8, .seq = 1024, .capacity_factor = capacity}};
        request.space.max_stages = 2, request.space.zero = {3}, request.space.recompute = {Recompute::none};
        request.space.states = request.space.activations = {Tier::device};
        request.space.schedules = {PipelineSchedule::one_f_one_b};
        Cluster cluster = small_cluster(4, 400 * kGB);
        for (MatmulRates& t : cluster.devices[0].matmul) std::fill(t.share.begin(), t.share.end(), 1.0);
        cluster.devices[0].attention_forward = cluster.devices[0].attention_backward = 1;
        const int64_t bound = work_bound(spec, cluster, request.job);
        const PlanAnswer a = plan_model(spec, cluster, request);
        ASSERT_TRUE(a.found);
        EXPECT_LE(bound, a.plan.bound_ps) << preset;
        EXPECT_GE(bound, a.plan.step_ps / 20) << preset;
      }
    }
}

TEST(PlanLimitsSlow, ChoicesThatWereNotEnumeratedAreBoundedByTheWork) {
  const ModelSpec spec = *preset_model("llama-2-7b");
  const Cluster cluster = read_cluster(source_dir() + "/examples/hardware/h100-16384.toml");
  PlanRequest request{.model = "x", .job = {.batch = 2048, .seq = 4096}};
  request.seconds = 2;  // a busy machine too finds a plan within the gap below
  const PlanAnswer a = plan_model(spec, cluster, request);
  ASSERT_TRUE(a.found);
  EXPECT_TRUE(a.interrupted);
  EXPECT_TRUE(says(a.plan, "before every choice")) << plan_json(a.plan);
  EXPECT_EQ(a.plan.bound_ps, work_bound(spec, cluster, request.job));
  EXPECT_LT(a.plan.simulator_gap(), 0.9);
}

// What binds is a tier that there is, by bytes that a faster assignment lacks.
TEST(PlanLimits, WhatBindsIsNoTierThatIsNotThere) {
  Cluster cluster = small_cluster(2, 5 * kGB);
  cluster.nodes[0].disk_bytes = cluster.nodes[0].disk_reserved_bytes = 0;
  PlanRequest request{.model = "x", .job = {.batch = 4, .seq = 2048}};
  request.space.schedules = {PipelineSchedule::one_f_one_b};
  const PlanAnswer a = plan_model(small_model(4), cluster, request);
  ASSERT_TRUE(a.found);
  EXPECT_EQ(a.plan.binds.find("disk"), std::string::npos) << a.plan.binds;
  EXPECT_NE(a.plan.binds.find("more (rank"), std::string::npos) << a.plan.binds;
}

// Orders that follow the times may be better with a worse strategy: none is left out of their tables.
TEST(PlanLimits, ZeroBubbleKeepsEveryStrategy) {
  const ModelSpec spec = small_model(2);
  PlanRequest request{.model = "x", .job = {.batch = 4, .seq = 2048}};
  const Machine m = machine_of(small_cluster(4, 40 * kGB), 0);
  const std::vector<Layer> layers = layers_of(spec);
  const Mesh mesh;
  const ChoiceTables t = make_tables(spec, request.job, request.space, layers, {m}, 0, mesh, 1);
  const LayerCosts costs(spec, request.job, m, mesh, 1);
  for (const Layer& layer : layers) {
    const ChoiceTables::Rows& rows = t.kinds[static_cast<size_t>(layer.kind)];
    EXPECT_LT(rows.cost[kStaged].size(), rows.cost[kTimed].size());
    for (const int zero : request.space.zero)
      for (const Recompute recompute : request.space.recompute)
        for (const Tier states : request.space.states)
          for (const Tier activations : request.space.activations) {
            const LayerStrategy s{zero, recompute, states, activations};
            if (!why_illegal(m, s).empty()) continue;
            EXPECT_TRUE(std::count(rows.cost[kTimed].begin(), rows.cost[kTimed].end(), costs.cost(layer, s, true)))
                << to_string(s);
          }
  }
  EXPECT_EQ(form_of({.num_stages = 2, .schedule = static_cast<int>(PipelineSchedule::zb_h1)}), kTimed);
  EXPECT_EQ(form_of({.num_stages = 2, .schedule = static_cast<int>(PipelineSchedule::gpipe)}), kStaged);
}

}  // namespace
}  // namespace tern
