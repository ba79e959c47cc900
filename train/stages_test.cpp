// Training by plans that cut the model into stages, on ranks as threads: the bits of one rank, through evaluations, checkpoints,
// stops and other plans.
#include <gtest/gtest.h>

#include "formats/hf/config.h"
#include "plan/layers.h"
#include "program/pipeline_order.h"
#include "spec/pipeline_schedule.h"
#include "spec/recompute.h"
#include "train/inputs.h"
#include "train/ranks_testing.h"

namespace tern {
namespace {

struct Stages {
  PipelineSchedule schedule = PipelineSchedule::one_f_one_b;
  int stages = 2, data = 1;
  Recompute recompute = Recompute::none;
};

int chunks_of(PipelineSchedule schedule) {
  return std::max(least_chunks(schedule), traits_of(schedule).chunks == ChunkRule::several ? 2 : 1);
}

// As the planner writes it, with every stage as long as the others.
Plan plan_of(const TrainSettings& s, const Stages& p) {
  const ModelSpec spec = load_inputs(s).spec;
  const auto layers = static_cast<int>(layers_of(spec).size());
  Plan plan{.parameters = num_parameters(spec)};
  plan.job = {.batch = s.batch,
              .seq = s.seq,
              .dtype = s.dtype,
              .gradients = s.dtype == DType::f64 ? DType::f64 : DType::f32,
              .optimizer = s.optimizer.rule};
  OuterChoice& o = plan.choice;
  o.mesh.data = p.data, o.num_stages = p.stages, o.schedule = p.schedule, o.chunks_per_stage = chunks_of(p.schedule);
  o.micro_batch = s.micro_batch, o.num_micro = s.batch / s.micro_batch / p.data;
  const int stages = p.stages * o.chunks_per_stage;
  for (int l = 0; l < layers; ++l)  // uneven: what is left over comes to the first stage
    plan.layers.push_back(
        {.first = l, .count = 1, .stage = std::max(0, l - (layers - stages)), .strategy = {.recompute = p.recompute}});
  for (int i = 0; i < stages; ++i)
    plan.stages.push_back(
        {.forward_ps = 10, .backward_ps = 10, .weight_ps = 10, .send_forward_ps = 1, .send_backward_ps = 1});
  plan.ranks.resize(static_cast<size_t>(p.stages));
  return plan;
}

TrainResult train_in_stages(TrainSettings s, const Stages& p, Io& io, const TrainHooks& hooks = {},
                            const std::atomic<bool>& stop = kNeverStops) {
  s.plan = plan_of(s, p), s.plan_path = "plan.json", s.sum_order.groups = p.data;
  s.recompute = p.recompute;
  return train_on(s, p.stages * p.data, io, hooks, stop);
}

void expect_bits_of_one_rank(TrainSettings s, const Stages& p) {
  SCOPED_TRACE(fmt::format("{}, {} stages of {}, {}, {}", name_of(p.schedule), p.stages, p.data, name_of(s.dtype),
                           name_of(s.optimizer.rule)));
  MemoryIo one, stages;
  s.sum_order.groups = p.data;
  const TrainResult want = train_on(s, 1, one), got = train_in_stages(s, p, stages);
  EXPECT_EQ(got.end, TrainEnd::finished);
  EXPECT_EQ(got.byte_mismatches, 0);
  EXPECT_EQ(got.counted_peak_bytes, got.predicted.tensors());
  EXPECT_TRUE(bits_of(got, stages) == bits_of(want, one));
  EXPECT_EQ(*got.loss, *want.loss);
  ASSERT_TRUE(got.evaluation && want.evaluation);
  EXPECT_EQ(got.evaluation->loss, want.evaluation->loss);
}

TEST(TrainStages, EveryScheduleLeavesTheBitsOfOneRank) {
  for (const bool tied : {false, true}) {
    const RunInputs inputs(tied, 4);
    TrainSettings s = settings_of(inputs, tied ? DType::bf16 : DType::f32);
    s.schedule.total_steps = 3;
    for (const PipelineSchedule schedule : kPipelineSchedules) expect_bits_of_one_rank(s, {.schedule = schedule});
    expect_bits_of_one_rank(s, {.stages = 4, .recompute = Recompute::full});
  }
}

TEST(TrainStages, WithReplicasAndEveryUpdateRule) {
  const RunInputs inputs(true, 3);
  for (const UpdateRule rule : kUpdateRules) {
    TrainSettings s = settings_of(inputs, DType::f32);
    s.optimizer = update_config(rule);
    s.schedule.total_steps = 3;
    expect_bits_of_one_rank(s, {.data = 2});
  }
}

TEST(TrainStages, InF64Too) {
  const RunInputs inputs(true, 4);
  expect_bits_of_one_rank(settings_of(inputs, DType::f64), {.schedule = PipelineSchedule::zb_h1, .stages = 3});
}

TEST(TrainStages, AStoppedRunGoesOnWithAnotherPlanOrNone) {
  const RunInputs inputs(true, 4);
  TrainSettings s = settings_of(inputs, DType::bf16);
  s.sum_order.groups = 1;
  MemoryIo whole;
  const std::string want = bits_of(train_on(s, 1, whole), whole);
  const std::vector<Stages> plans{{.stages = 1}, {.stages = 2}, {.schedule = PipelineSchedule::gpipe, .stages = 4}};
  for (const Stages& before : plans)
    for (const Stages& after : plans) {
      SCOPED_TRACE(fmt::format("{} stages, then {}", before.stages, after.stages));
      MemoryIo io;
      std::atomic<bool> stop = false;
      const TrainHooks hooks{.step = [&](const StepReport& r) { stop = stop || r.step == 3; }};
      const auto run = [&](const Stages& p, const TrainHooks& h, const std::atomic<bool>& asked) {
        return p.stages == 1 ? train_on(s, 1, io, h, asked) : train_in_stages(s, p, io, h, asked);
      };
      EXPECT_EQ(run(before, hooks, stop).end, TrainEnd::interrupted);
      const TrainResult r = run(after, {}, kNeverStops);
      EXPECT_GE(r.first_step, 3);
      EXPECT_TRUE(bits_of(r, io) == want);
    }
}

TEST(TrainStages, ATiedHeadOnTheFirstDeviceIsRefusedWithReplicasBeforeAnythingIsWritten) {
  const RunInputs inputs(true, 5);
  MemoryIo io;
  try {
    train_in_stages(settings_of(inputs, DType::f32), {.schedule = PipelineSchedule::zb_v, .data = 2}, io);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    EXPECT_NE(std::string(e.what()).find("--fix dp=1"), std::string::npos) << e.what();
  }
  EXPECT_FALSE(io.stat("run"));
}

}  // namespace
}  // namespace tern
