// Training by plans that share out matrices inside stages, and state over replicas of stages and of tensor groups: the model of one rank,
// from beginnings, evaluations and checkpoints that know no ranks.
#include <gtest/gtest.h>

#include "spec/recompute.h"
#include "train/mesh_testing.h"

namespace tern {
namespace {

// The second step begins with what the first one left.
TrainSettings two_steps(const RunInputs& inputs, DType dtype) {
  TrainSettings s = settings_of(inputs, dtype);
  s.schedule.total_steps = s.eval_every = 2, s.checkpoint_every = 1;
  return s;
}

TEST(TrainMesh, ZeroOneInStagesLeavesTheBitsOfOneRank) {
  const RunInputs inputs(false, 4), tied(true, 4);
  RunsOfOneRank one(two_steps(inputs, DType::f32));
  for (const PipelineSchedule schedule : kPipelineSchedules)
    expect_bits(one, {.schedule = schedule, .stages = 2, .data = 2, .zero = 1});
  TrainSettings s = two_steps(tied, DType::bf16);
  for (const UpdateRule rule : kUpdateRules) {
    s.optimizer = update_config(rule);
    RunsOfOneRank of_rule(s);
    expect_bits(of_rule, {.stages = 2, .data = 2, .zero = 1});
  }
}

// Sequences so short that updates are the highest moments, which then differ from rank to rank: who keeps no wide matrix needs less.
TEST(TrainMesh, UpdatesOfWhatEachRankKeepsAreThePredictedPeaks) {
  for (const bool tied : {false, true}) {
    const RunInputs inputs(tied, 4);
    for (const UpdateRule rule : {UpdateRule::soap, UpdateRule::muon}) {
      TrainSettings s = two_steps(inputs, DType::f32);
      s.optimizer = update_config(rule), s.seq = 2, s.batch = 4, s.valid_data.clear(), s.eval_every = 0;
      SCOPED_TRACE(fmt::format("{}, {}", name_of(rule), tied ? "tied" : "untied"));
      for (const int stages : {1, 2})
        for (const int zero : {1, 2}) {
          MemoryIo io;
          const TrainResult got = train_in_mesh(s, {.stages = stages, .data = 2, .zero = zero}, io);
          expect_whole(got);
        }
    }
  }
}

// Sums of each micro-batch over ranks: those of as many ranks that have all layers.
TEST(TrainMesh, ZeroTwoAndThreeInStagesHaveTheBitsOfRanksThatHaveAllLayers) {
  const RunInputs inputs(false, 4);
  for (const int zero : {2, 3})
    for (const DType dtype : {DType::f32, DType::bf16}) {
      TrainSettings s = two_steps(inputs, dtype);
      s.sum_order.groups = 2;
      MemoryIo copies;
      TrainSettings all = s;
      all.zero = zero;
      const TrainResult want = train_on(all, 2, copies);
      for (const PipelineSchedule schedule : kPipelineSchedules) {
        if (zero == 3 && splits_backward(schedule)) continue;
        SCOPED_TRACE(fmt::format("zero {}, {}, {}", zero, name_of(dtype), name_of(schedule)));
        MemoryIo io;
        const TrainResult got = train_in_mesh(s, {.schedule = schedule, .stages = 2, .data = 2, .zero = zero}, io);
        expect_whole(got);
        EXPECT_TRUE(bits_of(got, io) == bits_of(want, copies));
        EXPECT_EQ(*got.loss, *want.loss);
      }
    }
}

// Each mesh, tied or not, under each ZeRO stage, and each schedule.
std::vector<MeshCase> everything_beside_everything() {
  std::vector<MeshCase> all;
  for (const int zero : {0, 1, 2, 3}) {
    all.push_back({.data = 2, .tensor = 2, .zero = zero});
    all.push_back({.stages = 2, .data = 2, .tensor = 2, .zero = zero});
    all.push_back({.schedule = PipelineSchedule::gpipe, .stages = 3, .data = 2, .zero = zero});
  }
  for (const PipelineSchedule schedule : kPipelineSchedules)
    all.push_back({.schedule = schedule, .stages = 2, .tensor = 2, .recompute = Recompute::full});
  return all;
}

// Every `stride`-th of them, tied and not: at 2 what is tied here is not there.
void expect_all_near_one_rank(size_t stride, int64_t batch) {
  const std::vector<MeshCase> all = everything_beside_everything();
  for (const bool tied : {false, true}) {
    const RunInputs inputs(tied, 4);
    TrainSettings s = two_steps(inputs, DType::f64);
    s.optimizer = update_config(UpdateRule::sgd);
    s.batch = batch;
    RunsOfOneRank one(s);
    for (size_t at = tied ? stride - 1 : 0; at < all.size(); at += stride) expect_near(one, all[at]);
  }
}

TEST(TrainMesh, EverythingBesideEverythingIsNearOneRank) { expect_all_near_one_rank(2, 4); }
TEST(TrainMeshSlow, EverythingBesideEverythingTiedAndNotIsNearOneRank) { expect_all_near_one_rank(1, 8); }

TEST(TrainMesh, InOtherTypesAndWithOtherRules) {
  const RunInputs inputs(true, 4);
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const UpdateRule rule : {UpdateRule::adamw, UpdateRule::schedule_free})
      for (const int zero : {1, 3}) {
        TrainSettings s = two_steps(inputs, dtype);
        s.optimizer = update_config(rule);
        s.batch = 4;
        SCOPED_TRACE(fmt::format("{} {} zero {}", name_of(dtype), name_of(rule), zero));
        MemoryIo io, one;
        const TrainResult got = train_in_mesh(s, {.stages = 2, .data = 2, .tensor = 2, .zero = zero}, io);
        expect_whole(got);
        s.sum_order.groups = 2;
        const TrainResult want = train_on(s, 1, one);
        EXPECT_LE(std::abs(*got.loss - *want.loss) / *want.loss, dtype == DType::f32 ? 1e-4 : 3e-2);
      }
}

TEST(TrainMesh, AStoppedRunGoesOnUnderAnyMesh) {
  const RunInputs inputs(true, 4);
  TrainSettings s = settings_of(inputs, DType::f64);
  s.optimizer = update_config(UpdateRule::sgd);
  s.micro_batch = 2, s.schedule.total_steps = 4, s.eval_every = 0, s.valid_data.clear();
  const MeshCase meshes[] = {{}, {.stages = 2, .data = 2, .zero = 1}, {.stages = 2, .data = 2, .tensor = 2, .zero = 3}};
  MemoryIo whole;
  s.sum_order.groups = 1;
  const TrainResult want = train_on(s, 1, whole);
  for (const MeshCase& before : meshes)
    for (const MeshCase& after : meshes) {
      SCOPED_TRACE(to_string(before) + ", then " + to_string(after));
      MemoryIo io;
      std::atomic<bool> stop = false;
      const TrainHooks hooks{.step = [&](const StepReport& r) { stop = stop || r.step == 2; }};
      EXPECT_EQ(train_in_mesh(s, before, io, hooks, stop).end, TrainEnd::interrupted);
      const TrainResult r = train_in_mesh(s, after, io);
      EXPECT_GE(r.first_step, 2);
      expect_near(r, io, want, whole, 1e-12);
    }
}

TEST(TrainMesh, ATiedTableThatOneOfItsStagesAloneSharesOutIsRefusedByName) {
  const RunInputs inputs(true, 4);
  const TrainSettings s = settings_of(inputs, DType::f32);
  TrainSettings by_plan = s;
  by_plan.plan = plan_of(s, {.stages = 2, .data = 2, .zero = 2}), by_plan.plan_path = "plan.json";
  by_plan.plan->layers.front().strategy.zero = 1, by_plan.sum_order.groups = 2;
  MemoryIo io;
  try {
    train_on(by_plan, 4, io);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    EXPECT_NE(std::string(e.what()).find("ZeRO 2 and 3 share its gradient out for both or for neither, not 1 and 2"),
              std::string::npos)
        << e.what();
  }
  EXPECT_FALSE(io.stat("run"));
}

}  // namespace
}  // namespace tern
