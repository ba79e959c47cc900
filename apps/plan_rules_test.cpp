// tern plan --optimizer RULE and tern train --optimizer RULE: the same bytes of state, for every rule of the table.
#include <gtest/gtest.h>

#include <string_view>

#include "hardware/cluster.h"
#include "plan/pinned.h"
#include "planner/outer/plan_model.h"
#include "spec/recompute.h"
#include "train/inputs.h"
#include "train/ranks_testing.h"

namespace tern {
namespace {

constexpr std::string_view kMachine = R"(version = 1
name = "here"
[device.cpu]
engine = "tern"
memory = "4GB"
reserved = "1GB"
memory_bandwidth = "10GB/s"
memory_share = 1
launch = "1us"
peak = { f32 = "100GFLOP/s", bf16 = "200GFLOP/s" }
attention = { forward = 0.2, backward = 0.2 }
[[device.cpu.matmul]]
dtype = "f32"
tile = [1, 1, 1]
curve = { top = 0.9, rows = 10, columns = 10, depth = 10 }
[[device.cpu.matmul]]
dtype = "bf16"
tile = [1, 1, 1]
curve = { top = 0.9, rows = 10, columns = 10, depth = 10 }
[node.this]
device = "cpu"
devices = 1
host_memory = "4GB"
host_reserved = "4GB"
host_bandwidth = "10GB/s"
host_link = { bandwidth = "5GB/s", share = 1, latency = "0us" }
link = { name = "loopback", bandwidth = "1GB/s", share = 1, latency = "5us" }
network = { bandwidth = "1GB/s", share = 1 }
[[nodes]]
node = "this"
count = 1
)";

int64_t planned_state_bytes(const ModelSpec& spec, const TrainSettings& s) {
  PlanRequest r{.model = "small",
                .job = {.batch = s.batch, .seq = s.seq, .dtype = s.dtype, .optimizer = s.optimizer.rule}};
  r.space.schedules = {PipelineSchedule::one_f_one_b};
  r.space.zero = {0}, r.space.states = r.space.activations = {Tier::device};
  const PlanAnswer a = plan_model(spec, parse_cluster(std::string(kMachine), "here.toml"), r);
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
