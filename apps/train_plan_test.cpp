// tern train --plan: what a plan decides, what contradicts it, and that its Program is the trainer's.
#include <gtest/gtest.h>

#include <unistd.h>

#include <fstream>

#include "apps/options.h"
#include "base/error.h"
#include "base/options.h"
#include "model/linear.h"
#include "plan/layers.h"
#include "plan/plan_file.h"
#include "program/checksum.h"
#include "program/lower.h"
#include "spec/presets.h"
#include "spec/recompute.h"
#include "train/plan_settings.h"
#include "train/settings_ranks.h"
#include "train/step_placement.h"

namespace tern {
namespace {

ModelSpec small_model() { return decoder_of({.vocab = 96, .width = 32, .layers = 3, .heads = 4, .context = 64}); }

Plan small_plan() {
  const ModelSpec spec = small_model();
  Plan p{.model = "small", .hardware = "here", .node = "this", .parameters = num_parameters(spec)};
  p.job = {.batch = 6, .seq = 16, .dtype = DType::bf16, .optimizer = UpdateRule::sgd};
  p.choice = {.micro_batch = 2, .num_micro = 3};
  p.layers = {{.first = 0, .count = 2, .strategy = {.recompute = Recompute::full}},
              {.first = 2, .count = 3, .strategy = {.recompute = Recompute::attention}}};
  p.ranks.resize(1);
  p.step_ps = 5'000'000'000;
  return p;
}

class TrainPlan : public ::testing::Test {
 protected:
  std::string path_ = testing::TempDir() + "tern-train-plan-" + std::to_string(::getpid()) + ".json";
  void TearDown() override { ::unlink(path_.c_str()); }

  Options options(const Plan& plan, std::vector<std::string> more = {}) {
    std::ofstream(path_) << plan_json(plan);
    std::vector<std::string> words{"MODEL", "--dry-run", "--plan", path_};
    words.insert(words.end(), more.begin(), more.end());
    return resolve_options(tern_options(), "train", words, {}, false);
  }
  std::string refusal(const Plan& plan, const std::vector<std::string>& more = {}) {
    try {
      train_settings(options(plan, more));
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::usage);
      return e.what();
    }
    return "taken";
  }
};

TEST_F(TrainPlan, DecidesSizesTypeOptimizerAndEachLayersRecomputation) {
  const TrainSettings s = train_settings(options(small_plan()));
  EXPECT_EQ(s.batch, 6);
  EXPECT_EQ(s.micro_batch, 2);
  EXPECT_EQ(s.seq, 16);
  EXPECT_EQ(s.dtype, DType::bf16);
  EXPECT_EQ(s.optimizer.rule, UpdateRule::sgd);
  ASSERT_TRUE(s.plan);
  EXPECT_EQ(planned_recompute(*s.plan), (std::vector{Recompute::full, Recompute::full, Recompute::attention,
                                                     Recompute::attention, Recompute::attention}));
  // The recipe runs again: what the plan decides stands there with the plan's values.
  EXPECT_NE(s.recipe_toml.find("batch = 6  # the plan"), std::string::npos) << s.recipe_toml;
  EXPECT_NE(s.recipe_toml.find("dtype = \"bf16\"  # the plan"), std::string::npos) << s.recipe_toml;
}

// What a run is compared with.
TEST_F(TrainPlan, TheTimeOfItsProgramIsStrongerThanTheStageModels) {
  Plan plan = small_plan();
  EXPECT_EQ(planned_step(plan).ps, plan.step_ps);
  EXPECT_FALSE(planned_step(plan).of_program);
  plan.program = PlannedProgram{.instructions = 12, .step_ps = plan.step_ps};
  EXPECT_FALSE(planned_step(plan).of_program);
  plan.program->step_ps = plan.step_ps / 2;
  EXPECT_EQ(planned_step(plan).ps, plan.step_ps / 2);
  EXPECT_TRUE(planned_step(plan).of_program);
}

TEST_F(TrainPlan, LowersToTheProgramThatTheTrainerRunsByItsChecksum) {
  const ModelSpec spec = small_model();
  const TrainSettings s = train_settings(options(small_plan()));
  const Program planned = lower(spec, small_plan(), 0, {.scratch = scratch_bytes(s.multiply, s.dtype)});
  const Program trained = lower(spec, step_placement(spec, s, s.batch), 0);
  EXPECT_EQ(checksum(planned), checksum(trained));
  TrainSettings other = s;
  other.plan.reset();  // recomputing nothing
  EXPECT_NE(checksum(planned), checksum(lower(spec, step_placement(spec, other, other.batch), 0)));
}

TEST_F(TrainPlan, TakesAnOptionThatSaysTheSameAndRefusesOneThatDoesNot) {
  EXPECT_EQ(refusal(small_plan(), {"--batch", "6", "--dtype", "bf16", "--optimizer", "sgd"}), "taken");
  EXPECT_NE(refusal(small_plan(), {"--batch", "8"}).find("the plan has 6 for --batch"), std::string::npos);
  EXPECT_NE(refusal(small_plan(), {"--micro-batch", "1"}).find("the plan has 2 for --micro-batch"), std::string::npos);
  EXPECT_NE(refusal(small_plan(), {"--seq", "32"}).find("the plan has 16 for --seq"), std::string::npos);
  EXPECT_NE(refusal(small_plan(), {"--dtype", "f32"}).find("the plan has bf16 for --dtype"), std::string::npos);
  EXPECT_NE(refusal(small_plan(), {"--optimizer", "adamw"}).find("the plan has sgd for --optimizer"),
            std::string::npos);
  EXPECT_NE(refusal(small_plan(), {"--recompute", "full"}).find("the plan has a mode for each layer for --recompute"),
            std::string::npos);
}

// Of several devices: as many ranks, and the list that was priced, whether each keeps a copy or shares.
TEST_F(TrainPlan, OfSeveralDevicesLowersToTheProgramThatEachRankRuns) {
  const ModelSpec spec = small_model();
  for (const int zero : {0, 1, 2, 3}) {
    Plan p = small_plan();
    p.choice.mesh.data = 4, p.job.batch = 24;
    p.layers[0].strategy.zero = zero == 3 ? 3 : 0, p.layers[1].strategy.zero = zero;
    const TrainSettings s = train_settings(options(p));
    EXPECT_EQ(s.ranks, 4);
    EXPECT_EQ(s.sum_order.groups, 4);
    EXPECT_EQ(checksum(lower(spec, p, 0, {.scratch = scratch_bytes(s.multiply, s.dtype)})),
              checksum(lower(spec, step_placement(spec, s, rank_batch(s)), 0)));
    EXPECT_EQ(zero_of_units(spec, s).front(), zero == 3 ? 3 : 0);
    EXPECT_EQ(zero_of_units(spec, s).back(), zero);
  }
  Plan p = small_plan();
  p.choice.mesh.data = 4, p.job.batch = 24;
  EXPECT_EQ(refusal(p, {"--ranks", "4", "--zero", "0"}), "taken");
  EXPECT_NE(refusal(p, {"--ranks", "2"}).find("the plan has 4 for --ranks"), std::string::npos);
  EXPECT_NE(refusal(p, {"--zero", "1"}).find("the plan has 0 for --zero"), std::string::npos);
  p.layers[1].strategy.zero = 1;
  EXPECT_NE(refusal(p, {"--zero", "1"}).find("the plan has a stage for each layer for --zero"), std::string::npos);
}

// Matrices shared out, with replicas: the list that was priced.
TEST_F(TrainPlan, OfTensorGroupsLowersToTheProgramThatEachRankRuns) {
  const ModelSpec spec = small_model();
  Plan p = small_plan();
  p.choice.mesh.tensor = 2, p.choice.mesh.data = 2, p.job.batch = 12;
  const TrainSettings s = train_settings(options(p));
  EXPECT_EQ(s.ranks, 4);
  EXPECT_EQ(s.tensor, 2);
  EXPECT_EQ(s.sum_order.groups, 2);
  const uint32_t planned = checksum(lower(spec, p, 0, {.scratch = scratch_bytes(s.multiply, s.dtype)}));
  EXPECT_EQ(planned, checksum(lower(spec, step_placement(spec, s, rank_batch(s)), 0)));
  TrainSettings whole = s;
  whole.tensor = 1, whole.ranks = 2;
  EXPECT_NE(planned, checksum(lower(spec, step_placement(spec, whole, rank_batch(whole)), 0)));
  EXPECT_NE(refusal(p, {"--tensor-parallel", "4"}).find("the plan has 2 for --tensor-parallel"), std::string::npos);
  EXPECT_EQ(refusal(p, {"--tensor-parallel", "2"}), "taken");
}

// Exchanges beside products: as the plan says, and the list stays the same.
TEST_F(TrainPlan, ExchangesPassBesideProductsAsThePlanSays) {
  const ModelSpec spec = small_model();
  Plan p = small_plan();
  p.choice.mesh.tensor = 2, p.choice.mesh.data = 2, p.job.batch = 12;
  EXPECT_FALSE(train_settings(options(p)).tensor_overlap);
  EXPECT_NE(refusal(p, {"--tp-comm-overlap"}).find("the plan is without --tp-comm-overlap"), std::string::npos);
  const TrainSettings plain = train_settings(options(p));
  p.job.tensor_overlap = true;
  const TrainSettings s = train_settings(options(p));
  EXPECT_TRUE(s.tensor_overlap);
  EXPECT_NE(s.recipe_toml.find("tp-comm-overlap = true  # the plan"), std::string::npos) << s.recipe_toml;
  const uint32_t planned = checksum(lower(spec, p, 0, {.scratch = scratch_bytes(s.multiply, s.dtype)}));
  EXPECT_EQ(planned, checksum(lower(spec, step_placement(spec, s, rank_batch(s)), 0)));
  EXPECT_EQ(planned, checksum(lower(spec, step_placement(spec, plain, rank_batch(plain)), 0)));
  EXPECT_EQ(refusal(p, {"--tp-comm-overlap"}), "taken");
  EXPECT_NE(refusal(p, {"--tp-comm-overlap=off"}).find("the plan is with --tp-comm-overlap"), std::string::npos);
  p.choice.mesh.tensor = 1, p.choice.mesh.data = 4,
  p.job.batch = 24;  // a plan that was asked so and shares out no matrices
  EXPECT_FALSE(train_settings(options(p)).tensor_overlap);
}

TEST_F(TrainPlan, ExchangesBesideProductsAreOfTensorGroups) {
  const auto settings = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"MODEL", "--dry-run"});
    return train_settings(resolve_options(tern_options(), "train", words, {}, false));
  };
  EXPECT_TRUE(settings({"--ranks", "2", "--tensor-parallel", "2", "--tp-comm-overlap"}).tensor_overlap);
  EXPECT_FALSE(settings({"--ranks", "2", "--tensor-parallel", "2"}).tensor_overlap);
  try {
    settings({"--ranks", "2", "--tp-comm-overlap"});
    ADD_FAILURE() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    EXPECT_STREQ(e.what(), "--tp-comm-overlap: no ranks share out matrices; give --tensor-parallel");
  }
}

// Rows shared out, beside matrices and replicas: the list that was priced.
TEST_F(TrainPlan, OfContextGroupsLowersToTheProgramThatEachRankRuns) {
  const ModelSpec spec = small_model();
  for (const int tensor : {1, 2}) {
    Plan p = small_plan();
    p.choice.mesh.context = 2, p.choice.mesh.ulysses = true;
    p.choice.mesh.tensor = tensor, p.choice.mesh.data = 2, p.job.batch = 12;
    const TrainSettings s = train_settings(options(p));
    EXPECT_EQ(s.ranks, 4 * tensor);
    EXPECT_EQ(s.context_ranks, 2);
    EXPECT_EQ(s.sum_order.groups, 2);
    const uint32_t planned = checksum(lower(spec, p, 0, {.scratch = scratch_bytes(s.multiply, s.dtype)}));
    EXPECT_EQ(planned, checksum(lower(spec, step_placement(spec, s, rank_batch(s)), 0)));
    TrainSettings whole = s;
    whole.context_ranks = 1, whole.ranks = 2 * tensor;
    EXPECT_NE(planned, checksum(lower(spec, step_placement(spec, whole, rank_batch(whole)), 0)));
    EXPECT_NE(refusal(p, {"--context-parallel", "4"}).find("the plan has 2 for --context-parallel"), std::string::npos);
    EXPECT_EQ(refusal(p, {"--context-parallel", "2"}), "taken");
    EXPECT_NE(refusal(p, {"--context-by", "ring"}).find("the plan has ulysses for --context-by"), std::string::npos);
    p.choice.mesh.ulysses = false;
    const TrainSettings ring = train_settings(options(p));
    EXPECT_TRUE(ring.context_ring && !s.context_ring);
    const uint32_t of_ring = checksum(lower(spec, p, 0, {.scratch = scratch_bytes(s.multiply, s.dtype)}));
    EXPECT_EQ(of_ring, checksum(lower(spec, step_placement(spec, ring, rank_batch(ring)), 0)));
    EXPECT_NE(of_ring, planned);
    EXPECT_NE(refusal(p, {"--context-by", "ulysses"}).find("the plan has ring for --context-by"), std::string::npos);
    EXPECT_EQ(refusal(p, {"--context-by", "ring"}), "taken");
    p.choice.mesh.context = 1;
    EXPECT_NE(refusal(p, {"--context-by", "ring"}).find("no ranks share out rows; give --context-parallel"),
              std::string::npos);
  }
}

ModelSpec small_mixture() {
  ModelSpec spec = small_model();
  for (Unit& unit : spec.units)
    if (const MlpSpec* m = mlp_of(unit))
      unit.spec = MoeSpec{.norm = m->norm, .width = 32, .hidden = 24, .experts = 8, .top_k = 2};
  return spec;
}

// Experts shared out, beside replicas, rows and stages: the list that was priced, with the room for rows that was priced.
TEST_F(TrainPlan, OfExpertGroupsLowersToTheProgramThatEachRankRuns) {
  const ModelSpec spec = small_mixture();
  for (const int context : {1, 2})
    for (const int zero : {0, 1, 2, 3}) {
      Plan p = small_plan();
      p.parameters = num_parameters(spec), p.job.capacity_factor = 1.5;
      p.choice.mesh = {.context = context, .data = 4, .expert = 2, .ulysses = context > 1}, p.job.batch = 24;
      for (PlannedLayers& l : p.layers) l.strategy.zero = zero;
      const TrainSettings s = train_settings(options(p));
      EXPECT_EQ(s.ranks, 4 * context);
      EXPECT_EQ(s.expert_ranks, 2);
      EXPECT_EQ(s.capacity_factor, 1.5);
      const uint32_t planned = checksum(lower(spec, p, 0, {.scratch = scratch_bytes(s.multiply, s.dtype)}));
      EXPECT_EQ(planned, checksum(lower(spec, step_placement(spec, s, rank_batch(s)), 0)));
      TrainSettings whole = s;
      whole.expert_ranks = 1;
      EXPECT_NE(planned, checksum(lower(spec, step_placement(spec, whole, rank_batch(whole)), 0)));
      whole = s, whole.capacity_factor = 2;
      EXPECT_NE(planned, checksum(lower(spec, step_placement(spec, whole, rank_batch(whole)), 0)));
    }
  Plan p = small_plan();
  p.choice.mesh = {.data = 4, .expert = 2}, p.job.batch = 24;
  EXPECT_NE(refusal(p, {"--expert-parallel", "4"}).find("the plan has 2 for --expert-parallel"), std::string::npos);
  EXPECT_NE(refusal(p, {"--capacity-factor", "2"}).find("the plan has 1.25 for --capacity-factor"), std::string::npos);
  EXPECT_EQ(refusal(p, {"--expert-parallel", "2", "--capacity-factor", "1.25"}), "taken");
  p.choice.mesh = {.tensor = 2, .data = 2, .expert = 2}, p.job.batch = 12;
  EXPECT_NE(refusal(p).find("plan with --fix tp=1 or ep=1"), std::string::npos) << refusal(p);
  p.choice.mesh = {.tensor = 2, .data = 2, .expert_tensor = 2};
  EXPECT_NE(refusal(p).find("plan with --fix etp=1"), std::string::npos) << refusal(p);
}

TEST_F(TrainPlan, OptionsOfExpertGroupsAreCheckedBeforeTheModelIsRead) {
  const auto refused = [](std::vector<std::string> words) -> std::string {
    words.insert(words.begin(), {"MODEL", "--dry-run"});
    try {
      train_settings(resolve_options(tern_options(), "train", words, {}, false));
    } catch (const Error& e) { return e.what(); }
    return "taken";
  };
  EXPECT_EQ(refused({"--ranks", "4", "--expert-parallel", "2"}), "taken");
  EXPECT_EQ(refused({"--ranks", "4", "--context-parallel", "2", "--expert-parallel", "4"}), "taken");
  EXPECT_NE(refused({"--ranks", "4", "--expert-parallel", "3"}).find("choose 2 or 4"), std::string::npos);
  EXPECT_NE(refused({"--ranks", "2", "--expert-parallel", "2", "--outer", "diloco"}).find("--expert-parallel"),
            std::string::npos);
  EXPECT_NE(refused({"--capacity-factor", "2"}).find("no ranks share out experts; give --expert-parallel"),
            std::string::npos);
  EXPECT_NE(refused({"--context-by", "ring"}).find("no ranks share out rows; give --context-parallel"),
            std::string::npos);
}

TEST_F(TrainPlan, RefusesByNameWhatItDoesNotRunAndNamesWhatWouldDo) {
  Plan p = small_plan();
  p.choice.mesh.tensor = 2, p.choice.num_stages = 2;
  EXPECT_EQ(why_not_trained(p), "");
  p.choice.mesh.tensor = 1, p.choice.mesh.context = 2;
  EXPECT_EQ(why_not_trained(p), "");
  p = small_plan(), p.choice.num_stages = 2, p.choice.schedule = PipelineSchedule::zb_h1;
  p.choice.mesh.data = 2, p.job.batch = 12, p.layers[1].strategy.zero = 3;
  EXPECT_NE(why_not_trained(p).find("plan with --zero 0,1,2, or with --fix schedule=1f1b"), std::string::npos);
  p.layers[1].strategy.zero = 2;
  EXPECT_EQ(why_not_trained(p), "");
  p = small_plan(), p.choice.mesh.data = 2;
  EXPECT_NE(refusal(p).find("3 micro-batches of 2 on 2 ranks for a batch of 6"), std::string::npos);
  p = small_plan(), p.layers[1].strategy.states = Tier::host;
  EXPECT_NE(refusal(p).find("off the device"), std::string::npos);
  for (PlannedLayers& l : p.layers) l.strategy.states = Tier::disk;
  EXPECT_EQ(why_not_trained(p), "") << "states of all layers";
  p.layers[0].strategy.activations = Tier::disk;
  EXPECT_NE(refusal(p).find("off the device"), std::string::npos);
  p = small_plan(), p.job.dtype = DType::f16;
  EXPECT_NE(refusal(p).find("is in f16"), std::string::npos);
  p = small_plan(), p.job.gradients = DType::bf16;
  EXPECT_NE(refusal(p).find("has gradients in bf16"), std::string::npos);
}

// One table, two layers.
TEST_F(TrainPlan, RefusesATiedTableThatIsSharedOutForOneOfItsLayersAlone) {
  Plan p = small_plan();
  p.choice.mesh.data = 4, p.job.batch = 24, p.layers[1].strategy.zero = 3;
  const TrainSettings s = train_settings(options(p));
  try {
    check_planned_model(small_model(), s);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    EXPECT_NE(std::string(e.what()).find("embedding and head share one table"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("--zero 3 for all layers"), std::string::npos) << e.what();
  }
}

TEST_F(TrainPlan, RefusesAnotherModel) {
  const TrainSettings s = train_settings(options(small_plan()));
  EXPECT_NO_THROW(check_planned_model(small_model(), s));
  const ModelSpec other = decoder_of({.vocab = 96, .width = 32, .layers = 4, .heads = 4, .context = 64});
  EXPECT_THROW(check_planned_model(other, s), Error);
}

}  // namespace
}  // namespace tern
