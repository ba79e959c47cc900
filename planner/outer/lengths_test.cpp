// Plans for sequences of unlike length: the search, the file and the audit beside those of one length.
#include <gtest/gtest.h>

#include "base/source_dir_testing.h"
#include "plan/cost_model.h"
#include "plan/job_windows.h"
#include "plan/pinned.h"
#include "plan/plan_file.h"
#include "plan/window_mix.h"
#include "planner/judges/audit.h"
#include "planner/outer/answer_impl.h"
#include "planner/outer/choice_bounds_impl.h"
#include "planner/outer/first_plans_impl.h"
#include "planner/outer/plan_model.h"
#include "spec/presets.h"
#include "spec/training_flops.h"

namespace tern {
namespace {

struct LengthsCase {
  ModelSpec spec = *preset_model("llama-3-8b");
  Cluster cluster = read_cluster(source_dir() + "/examples/hardware/h100-node.toml");
  PlanRequest request{.model = "llama-3-8b", .job = {.batch = 16, .seq = 8192}};
  LengthsCase() {
    request.space.states = request.space.activations = {Tier::device};
    request.space.max_tensor = 2, request.space.max_context = 1;
    request.space.schedules = {PipelineSchedule::one_f_one_b};
  }
  void set_lengths(std::vector<LengthCount> rows, Batching batching = Batching::packed) {
    SequenceLengths l = sequence_lengths(std::move(rows));
    request.job.lengths = {
        .batching = batching, .sequences = l.sequences, .tokens = l.tokens, .crc = l.crc(), .mix = {}};
    request.job.lengths.mix = std::make_shared<WindowMix>(std::move(l), batching);
  }
  Plan plan() const {
    const PlanAnswer a = plan_model(spec, cluster, request);
    EXPECT_TRUE(a.found);
    return a.plan;
  }
};
const std::vector<LengthCount> kMixed{{37, 400}, {700, 80}, {5000, 9}, {60000, 1}};

TEST(PlanModelLengths, LengthsEqualToSeqGiveThePlanWithoutThem) {
  LengthsCase c;
  const Plan without = c.plan();
  for (const Batching b : {Batching::packed, Batching::padded}) {
    c.set_lengths({{8192, 77}}, b);
    Plan with = c.plan();
    EXPECT_EQ(with.tokens_per_second(), without.tokens_per_second());
    EXPECT_EQ(with.window_tokens_per_second(), without.tokens_per_second());
    with.job.lengths = {};
    EXPECT_EQ(plan_json(with), plan_json(without));
  }
}

TEST(PlanModelLengths, ShorterSequencesCostLessAndMemoryIsThatOfAnyWindow) {
  LengthsCase c;
  c.request.space =
      pin(c.request.space, parse_pinned("tp=2,dp=4,pp=1,micro-batch=1,zero=1,recompute=full,layers=even"));
  const Plan whole = c.plan();
  c.set_lengths({{64, 1}});
  const Plan shorter = c.plan();
  c.set_lengths(kMixed);
  const Plan mixed = c.plan();
  EXPECT_LT(shorter.step_ps, mixed.step_ps);
  EXPECT_LT(mixed.step_ps, whole.step_ps);
  EXPECT_EQ(mixed.ranks[0].peak, whole.ranks[0].peak);
  c.set_lengths({{64, 1}}, Batching::padded);
  const Plan padded = c.plan();
  EXPECT_EQ(padded.step_ps, whole.step_ps) << "padding is computed like all else";
  EXPECT_NEAR(padded.tokens_per_second() / whole.tokens_per_second(), 64.0 / 8192, 1e-12);
  // By the formula that is named: real FLOPs a second over the peak.
  EXPECT_NEAR(
      padded.flops_share / whole.flops_share,
      64.0 / 8192 * training_flops_per_token(c.spec, int64_t{64}) / training_flops_per_token(c.spec, int64_t{8192}),
      1e-9);
}

// Attention of a rank costs by its pairs: what a unit takes beyond no attention at all follows their mean times the
// slowest rank's share.
TEST(PlanModelLengths, AttentionIsPricedByTheSlowestRanksPairs) {
  LengthsCase c;
  const Machine m = machine_of(c.cluster, 0);
  const AttentionSpec& a = *attention_of(c.spec.units[1]);
  const auto backward = [&](const TrainJob& job, int64_t data, int zero) {
    return LayerCosts(c.spec, job, m, {.data = data}, 2).cost(layers_of(c.spec)[1], {.zero = zero}, false).backward;
  };
  // Lengths of a half give two points of a straight line in pairs.
  const auto of_one = [&](int64_t length) {
    c.set_lengths({{length, 1}});
    return c.request.job;
  };
  const TrainJob low = of_one(1), high = of_one(8192);
  c.set_lengths(kMixed);
  const TrainJob mixed = c.request.job;
  const WindowMix& mix = *mixed.lengths.mix;
  const double slope =
      static_cast<double>(backward(high, 1, 0) - backward(low, 1, 0)) / (window_pairs(high, a) - window_pairs(low, a));
  for (const int64_t data : {1, 4})
    for (const int zero : {0, 2}) {
      const double factor = mix.slowest(a, 8192, data, zero == 2 ? 2 : 16 / data).factor;
      EXPECT_EQ(factor > 1, data > 1);
      const double want = static_cast<double>(backward(low, data, zero)) +
                          slope * (factor * window_pairs(mixed, a) - window_pairs(low, a));
      EXPECT_NEAR(static_cast<double>(backward(mixed, data, zero)) / want, 1, 1e-6) << data << ", zero " << zero;
    }
}

TEST(PlanModelLengths, TheFileIsJudgedWithTheSameLengthsAndNoOthers) {
  LengthsCase c;
  c.set_lengths(kMixed);
  Plan plan = c.plan();
  EXPECT_LE(work_bound(c.spec, c.cluster, c.request.job), plan.step_ps);
  EXPECT_LT(work_bound(c.spec, c.cluster, c.request.job), work_bound(c.spec, c.cluster, LengthsCase().request.job));
  plan.bound_ps = audit_plan(c.spec, c.cluster, c.request, plan).proven_ps;
  const Plan read = parse_plan(plan_json(plan), "p");
  EXPECT_EQ(read, plan);
  EXPECT_EQ(plan_json(read), plan_json(plan));
  const PlanAudit same = audit_plan(c.spec, c.cluster, c.request, read);
  EXPECT_TRUE(same.accepted()) << same.reason;
  const auto reason = [&] { return audit_plan(c.spec, c.cluster, c.request, read).reason; };
  c.set_lengths(kMixed, Batching::padded);
  EXPECT_NE(reason().find("batched otherwise"), std::string::npos) << reason();
  c.set_lengths({{37, 401}, {700, 80}, {5000, 9}, {60000, 1}});
  EXPECT_NE(reason().find("other lengths"), std::string::npos);
  c.request.job.lengths = {};
  EXPECT_NE(reason().find("other lengths"), std::string::npos);
}

}  // namespace
}  // namespace tern
