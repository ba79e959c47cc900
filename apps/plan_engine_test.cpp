#include "apps/plan_engine.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "apps/machine_testing.h"
#include "base/units.h"
#include "planner/outer/plan_model.h"
#include "spec/presets.h"

namespace tern {
namespace {

Plan plan_of(const ModelSpec& spec, Tier states) {
  PlanRequest r{.model = "small", .job = {.batch = 4, .seq = 64, .dtype = DType::f32}};
  r.space.schedules = {PipelineSchedule::one_f_one_b};
  r.space.zero = {0}, r.space.states = {states}, r.space.activations = {Tier::device};
  const PlanAnswer answer = plan_model(spec, machine_of_tern(int64_t{4} << 30), r);
  EXPECT_TRUE(answer.found);
  return answer.plan;
}

// As `tern train --plan` does, so that the memory that is told is the run's, and the command without the file runs the same plan.
TEST(PlanEngine, StatesOnTheDiskAreNotCountedInMemory) {
  const ModelSpec spec = decoder_of({.vocab = 4096, .width = 256, .layers = 4, .heads = 4, .context = 128});
  const EngineTraining device = engine_training(spec, plan_of(spec, Tier::device), "");
  const EngineTraining disk = engine_training(spec, plan_of(spec, Tier::disk), "");
  ASSERT_EQ(device.why_not, "");
  ASSERT_EQ(disk.why_not, "");
  EXPECT_EQ(device.command.find("--states"), std::string::npos) << device.command;
  EXPECT_NE(disk.command.find(" --states disk"), std::string::npos) << disk.command;
  EXPECT_LT(disk.memory.optimizer, device.memory.optimizer / 2);
  EXPECT_EQ(disk.saving.staging, 0);
  EXPECT_GT(device.saving.staging, 0);
  const std::string table = describe(device, int64_t{1} << 40);
  EXPECT_NE(table.find("\n  staging "), std::string::npos) << table;
  EXPECT_NE(table.find(" " + format_with_commas(device.saving.staging) + " bytes from which a checkpoint"),
            std::string::npos)
      << table;
  EXPECT_EQ(describe(disk, int64_t{1} << 40).find("\n  staging "), std::string::npos);
  EXPECT_EQ(engine_training(spec, plan_of(spec, Tier::disk), "a plan.json").command, "--plan 'a plan.json'");
}

}  // namespace
}  // namespace tern
