// Given axes: the search over what is left equals plain loops that leave out every other choice.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/error.h"
#include "planner/judges/audit.h"
#include "planner/outer/plan_model.h"
#include "planner/outer/twin_test.h"
#include "spec/recompute.h"

namespace tern {
namespace {

struct PinnedQuestion {
  ModelSpec spec = small_model(2);
  Cluster cluster = small_cluster(4, 6 * kGB);
  PlanRequest request{.model = "small"};
  PinnedQuestion() {
    request.job = {.batch = 4, .seq = 4096};
    request.space.schedules = {PipelineSchedule::one_f_one_b, PipelineSchedule::gpipe, PipelineSchedule::interleaved};
    request.space.max_chunks = 2;
    request.space.zero = {0, 3};
    request.space.recompute = {Recompute::none, Recompute::full};
    request.space.states = request.space.activations = {Tier::device};
  }
};

bool has(const PinnedAxes& p, const OuterChoice& c) {
  const auto is = [](const auto& pin, auto value) { return !pin || *pin == static_cast<int64_t>(value); };
  return is(p.tensor, c.mesh.tensor) && is(p.context, c.mesh.context) && is(p.data, c.mesh.data) &&
         is(p.stages, c.num_stages) && is(p.chunks, c.chunks_per_stage) && is(p.micro_batch, c.micro_batch) &&
         is(p.micro_batches, c.num_micro) && (!p.schedule || c.num_stages == 1 || *p.schedule == c.schedule) &&
         (!p.ulysses || c.mesh.context == 1 || *p.ulysses == c.mesh.ulysses);
}

// One strategy for all, blocks in equal numbers.
void try_even(const PinnedQuestion& q, const Instance& in, const OuterChoice& c, Best& best) {
  const std::vector<Layer> layers = layers_of(q.spec);
  const int V = c.num_stages * c.chunks_per_stage, blocks = static_cast<int>(layers.size()) - 2;
  if (blocks % V) return;
  Pricer pricer(in);
  for (int k = 0; k < static_cast<int>(in.cost.front().size()); ++k) {
    Assignment a{{0}, std::vector<int>(layers.size(), k)};
    for (int u = 0; u < blocks; ++u) a.stage.push_back(u * V / blocks);
    a.stage.push_back(V - 1);
    const Priced p = pricer(a);
    ++best.priced;
    if (p.fits() && p.makespan < best.makespan) best.makespan = p.makespan, best.choice = c;
  }
}

TEST(PinnedSearch, APinThatSaysNothingOfThePlanIsSaid) {
  const auto said = [](const char* pins) {
    PinnedQuestion q;
    q.request.space = pin(q.request.space, parse_pinned(pins));
    const PlanAnswer a = plan_model(q.spec, q.cluster, q.request);
    EXPECT_TRUE(a.found) << pins;
    return std::any_of(a.plan.restrictions.begin(), a.plan.restrictions.end(),
                       [](const std::string& r) { return r.find("says nothing") != std::string::npos; });
  };
  EXPECT_TRUE(said("pp=1,schedule=gpipe"));
  EXPECT_TRUE(said("cp=1,cp-by=ring"));
  EXPECT_FALSE(said("pp=2,schedule=gpipe"));
  EXPECT_FALSE(said("cp=2,cp-by=ring"));
  EXPECT_FALSE(said("pp=1"));
}

TEST(PinnedSearch, EqualsPlainLoopsOverTheChoicesThatAreLeft) {
  const PinnedQuestion q;
  const int64_t free = plan_model(q.spec, q.cluster, q.request).plan.step_ps;
  int differ = 0;
  for (const char* text : {"tp=2", "pp=2,schedule=gpipe", "dp=4", "micro-batches=2,tp=1", "cp=2", "cp=2,cp-by=ring",
                           "chunks=2", "zero=3,recompute=full", "schedule=interleaved,pp=2", "layers=even,pp=2",
                           "layers=even", "tp=2,pp=2,micro-batch=1,zero=3,layers=even"}) {
    PlanRequest request = q.request;
    const PinnedAxes pins = parse_pinned(text);
    request.space = pin(request.space, pins);
    Best best;
    for_each_choice(q.spec, q.cluster, request.job, request.space, [&](const Instance& in, const OuterChoice& c) {
      if (!has(pins, c)) return;
      if (pins.even) return try_even(q, in, c, best);
      try_assignments(in, c, best);
    });
    const PlanAnswer answer = plan_model(q.spec, q.cluster, request);
    ASSERT_TRUE(answer.found) << text;
    ASSERT_GT(best.priced, 0) << text;
    EXPECT_EQ(answer.plan.step_ps, best.makespan) << text << ": " << to_string(answer.plan.choice);
    EXPECT_TRUE(has(pins, answer.plan.choice)) << text << ": " << to_string(answer.plan.choice);
    EXPECT_GE(answer.plan.step_ps, free) << text << ": the free optimum is never worse";
    EXPECT_LE(answer.plan.bound_ps, answer.plan.step_ps);
    differ += answer.plan.step_ps > free;
    const PlanAudit audit = audit_plan(q.spec, q.cluster, request, answer.plan);
    EXPECT_TRUE(audit.plan_holds()) << text << ": " << audit.reason;
    EXPECT_EQ(audit.choices, answer.plan.counts.legal) << text;
  }
  EXPECT_GT(differ, 4) << "pins that cost nothing test nothing";
}

TEST(PinnedSearch, AllPinnedPricesOneConfiguration) {
  PinnedQuestion q;
  q.request.space = pin(q.request.space, parse_pinned("tp=2,cp=1,dp=1,pp=2,chunks=1,schedule=1f1b,micro-batch=2,zero=3,"
                                                      "recompute=full,states=device,activations=device,layers=even"));
  const PlanAnswer a = plan_model(q.spec, q.cluster, q.request);
  ASSERT_TRUE(a.found);
  EXPECT_EQ(a.choices, 1);
  EXPECT_EQ(a.plan.bound_ps, a.plan.step_ps);
  for (const PlannedLayers& l : a.plan.layers) EXPECT_EQ(to_string(l.strategy), "zero 3, recompute full");
  PlanRequest other = q.request;
  other.space = pin(PinnedQuestion().request.space, parse_pinned("tp=2,zero=0"));
  EXPECT_EQ(audit_plan(q.spec, q.cluster, other, a.plan).verdict, Verdict::rejected) << "outside the space";
}

TEST(PinnedSearch, APlanWhoseLayersLieUnevenlyIsNotInAnEvenSpace) {
  PinnedQuestion q;
  q.request.space = pin(q.request.space, parse_pinned("pp=2,layers=even"));
  const PlanAnswer a = plan_model(q.spec, q.cluster, q.request);
  ASSERT_TRUE(a.found);
  ASSERT_TRUE(audit_plan(q.spec, q.cluster, q.request, a.plan).plan_holds());
  Plan uneven = a.plan;
  ASSERT_EQ(uneven.layers.size(), 2u);
  ++uneven.layers[0].count, ++uneven.layers[1].first, --uneven.layers[1].count;
  EXPECT_NE(audit_plan(q.spec, q.cluster, q.request, uneven).reason.find("evenly"), std::string::npos);
}

TEST(PinnedSearch, WhatCannotBeNamesTheLimitItBreaks) {
  const PinnedQuestion q;
  for (const auto& [pins, words] : std::vector<std::pair<const char*, const char*>>{
           {"tp=3", "tensor 3: does not divide 32 heads"},
           {"dp=3", "data 3 × micro-batch 1: does not divide a batch of 4"},
           {"dp=2,micro-batch=2,micro-batches=4", "is not a batch of 4"},
           {"tp=4,pp=2", "8 devices (tp 4 × cp 1 × dp 1 × pp 2): 4 of one type can be used"},
           {"pp=7", "devices"},
           {"ep=2", "the model has no experts"},
           {"cp=3", "do not divide a sequence of 4096"},
           {"schedule=1f1b,chunks=2,pp=2", "schedule 1f1b has one per stage"},
           {"pp=1,chunks=2", "one stage has one chunk"},
           {"pp=4,layers=even", "4 stages × 1 chunks do not divide 2 blocks"},
           {"schedule=interleaved,pp=2,chunks=2,micro-batches=1", "no multiple of 2 stages"}}) {
    PlanRequest request = q.request;
    request.space = pin(request.space, parse_pinned(pins));
    try {
      plan_model(q.spec, q.cluster, request);
      ADD_FAILURE() << pins << " was planned";
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::usage) << pins;
      EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << pins << ": " << e.what();
    }
  }
}

TEST(PinnedSearch, WhatDoesNotFitSaysHowMuchIsMissing) {
  PinnedQuestion q;
  q.cluster = small_cluster(4, 1 * kGB);
  q.request.space = pin(q.request.space, parse_pinned("tp=1,dp=4,pp=1,zero=0,recompute=none,layers=even"));
  const PlanAnswer a = plan_model(q.spec, q.cluster, q.request);
  EXPECT_FALSE(a.found);
  EXPECT_TRUE(a.proven_infeasible);
  EXPECT_GT(a.no_fit.missing_bytes, 5 * kGB);
  EXPECT_NE(a.no_fit.choice.find("tp 1"), std::string::npos) << a.no_fit.choice;
}

}  // namespace
}  // namespace tern
