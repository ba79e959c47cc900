// tern plan --optimizer RULE and tern train --optimizer RULE: the same bytes of state, for every rule of the table.
#include <gtest/gtest.h>

#include <string>

#include "apps/machine_testing.h"
#include "plan/pinned.h"
#include "planner/outer/plan_model.h"
#include "spec/recompute.h"
#include "train/inputs.h"
#include "train/ranks_testing.h"

namespace tern {
namespace {

int64_t planned_state_bytes(const ModelSpec& spec, const TrainSettings& s) {
  PlanRequest r{.model = "small",
                .job = {.batch = s.batch, .seq = s.seq, .dtype = s.dtype, .optimizer = s.optimizer.rule}};
  r.space.schedules = {PipelineSchedule::one_f_one_b};
  r.space.zero = {0}, r.space.states = r.space.activations = {Tier::device};
  const PlanAnswer a = plan_model(spec, machine_of_tern(int64_t{4} << 30), r);
  EXPECT_TRUE(a.found && a.memory.size() == 1);
  return a.found ? a.memory[0][0].optimizer : -1;
}

TEST(PlanRules, TheStateThatAPlanPricesIsTheStateThatARunCounts) {
  for (const bool tied : {false, true}) {
    const RunInputs inputs(tied);
    for (const UpdateRule rule : kUpdateRules)
      for (const DType dtype : {DType::f32, DType::bf16}) {
        SCOPED_TRACE(std::string(name_of(rule)) + " " + std::string(name_of(dtype)) + (tied ? " tied" : ""));
        TrainSettings s = settings_of(inputs, dtype);
        s.optimizer = update_config(rule);
        s.sum_order.groups = 1, s.schedule.total_steps = 2;
        MemoryIo io;
        const TrainResult r = train_on(s, 1, io);
        EXPECT_EQ(r.byte_mismatches, 0);
        EXPECT_EQ(r.counted_peak_bytes, r.predicted.tensors());
        EXPECT_GT(r.predicted.optimizer, 0);
        EXPECT_EQ(planned_state_bytes(load_inputs(s).spec, s), r.predicted.optimizer);
      }
  }
}

}  // namespace
}  // namespace tern
