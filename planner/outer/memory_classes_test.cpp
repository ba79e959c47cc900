// What a plan's bytes are for: sums that are the priced peaks, and each class by its own closed form.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <set>
#include <string>

#include "base/error.h"
#include "base/source_dir_testing.h"
#include "planner/outer/plan_model.h"
#include "planner/outer/twin_test.h"
#include "spec/recompute.h"

namespace tern {
namespace {

PlanRequest request_of(PipelineSchedule schedule, int64_t batch) {
  PlanRequest r{.model = "small", .job = {.batch = batch, .seq = 2048}};
  r.space.schedules = {schedule};
  return r;
}

void expect_sums(const PlanAnswer& a) {
  ASSERT_EQ(a.memory.size(), a.plan.ranks.size());
  for (size_t r = 0; r < a.memory.size(); ++r)
    for (size_t tier = 0; tier < kTiers; ++tier)
      EXPECT_EQ(a.memory[r][tier].total(), a.plan.ranks[r].peak[tier]) << "rank " << r << ", tier " << tier;
}

// 16-bit weights, f32 gradients, 12 bytes of AdamW: over all ranks every parameter once, whatever the cut.
TEST(PlannedMemory, WithoutShardingAreTheParametersTimesTheirBytes) {
  const ModelSpec spec = small_model(6);
  for (const PipelineSchedule schedule :
       {PipelineSchedule::one_f_one_b, PipelineSchedule::zb_h1, PipelineSchedule::interleaved}) {
    PlanRequest r = request_of(schedule, 8);
    r.space.zero = {0}, r.space.states = r.space.activations = {Tier::device};
    r.space = pin(r.space, parse_pinned("tp=1,cp=1,dp=1,pp=2"));
    const PlanAnswer a = plan_model(spec, small_cluster(2, 60 * kGB), r);
    ASSERT_TRUE(a.found);
    expect_sums(a);
    PlannedMemory all;
    for (const PlannedMemoryByTier& rank : a.memory) {
      all.weights += rank[0].weights, all.gradients += rank[0].gradients, all.optimizer += rank[0].optimizer;
      EXPECT_GT(rank[0].activations, 0);
      EXPECT_GT(rank[0].buffers, 0);
      EXPECT_EQ(rank[1].total() + rank[2].total(), 0);
    }
    const int64_t n = num_parameters(spec);
    EXPECT_EQ(all.weights, 2 * n) << name_of(schedule);
    EXPECT_EQ(all.gradients, 4 * n);
    EXPECT_EQ(all.optimizer, 12 * n);
  }
}

TEST(PlannedMemory, WhatIsOffloadedLiesOnItsTierAndShardsDivide) {
  const ModelSpec spec = small_model(4);
  const int64_t n = num_parameters(spec);
  for (const Tier home : {Tier::device, Tier::host}) {
    PlanRequest r = request_of(PipelineSchedule::one_f_one_b, 8);
    r.space.zero = {1}, r.space.states = {home}, r.space.activations = {home};
    r.space = pin(r.space, parse_pinned("tp=1,cp=1,dp=4,pp=1"));
    const PlanAnswer a = plan_model(spec, small_cluster(4, 60 * kGB), r);
    ASSERT_TRUE(a.found);
    expect_sums(a);
    const PlannedMemoryByTier& m = a.memory[0];
    const size_t at = static_cast<size_t>(home), other = 1 - at;
    EXPECT_EQ(m[0].weights, 2 * n);
    EXPECT_EQ(m[0].gradients, 4 * n);
    EXPECT_NEAR(static_cast<double>(m[at].optimizer), 3.0 * static_cast<double>(n), 0.01 * static_cast<double>(n))
        << "a quarter, and norms and blocks that do not divide";
    EXPECT_EQ(m[other].optimizer, 0);
    EXPECT_GT(m[at].activations, 0);
    EXPECT_EQ(m[other].activations, 0);
    EXPECT_GT(m[0].buffers, 0) << "the layer at work";
  }
}

// Where stages lie on unlike nodes each has the costs of its own type.
TEST(PlannedMemory, SumUpOverUnlikeNodesToo) {
  const Cluster desk = read_cluster(source_dir() + "/examples/hardware/mixed-desk.toml");
  PlanRequest r = request_of(PipelineSchedule::one_f_one_b, 8);
  r.job.seq = 512, r.space.max_micro_batch = 2;
  const PlanAnswer a = plan_model(*preset_model("gpt2"), desk, r);
  ASSERT_TRUE(a.found);
  expect_sums(a);
}

// Every kind of plan there is: schedules, sharding, homes, recomputation, experts, encoders, tied heads, dtypes, and
// memory that forces some of them.
TEST(PlannedMemory, SumUpInRandomQuestions) {
  std::set<std::string> seen;
  int found = 0;
  for (uint32_t seed = 0; seed < 240; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
    const char* preset = std::array{"llama-2-7b", "gpt2-xl", "mixtral-8x7b", "t5-small"}[below(4)];
    const ModelSpec spec = preset[0] == 't' ? *preset_model(preset) : small_model(2 + below(3), preset);
    PlanRequest r = request_of(kPipelineSchedules[seed % kPipelineSchedules.size()], int64_t{4} << below(3));
    r.job.seq = 256 << below(3);
    r.job.dtype = std::array{DType::bf16, DType::f16, DType::f32}[below(3)];
    r.job.gradients = r.job.dtype != DType::f32 && below(2) ? r.job.dtype : DType::f32;
    r.job.optimizer = below(3) ? UpdateRule::adamw : UpdateRule::sgd;
    r.space.zero = {static_cast<int>(below(4))};
    r.space.recompute = {std::array{Recompute::none, Recompute::attention, Recompute::full}[below(3)]};
    r.space.states = {std::array{Tier::device, Tier::host, Tier::disk}[below(3)], Tier::device};
    r.space.activations = {std::array{Tier::device, Tier::host, Tier::disk}[below(3)], Tier::device};
    r.space.max_micro_batch = 2;
    const int64_t devices = int64_t{1} << below(3);
    const std::string pins = fmt::format("pp={}", std::min<int64_t>(devices, int64_t{1} << below(3)));
    r.space = pin(r.space, parse_pinned(pins));
    PlanAnswer a;
    try {
      const int64_t memory = (preset[0] == 'm' ? 8 : 1) * static_cast<int64_t>(1 + below(8)) * kGB;
      a = plan_model(spec, small_cluster(devices, memory), r);
    } catch (const Error& e) {
      ASSERT_EQ(e.kind(), ErrorKind::usage) << "seed " << seed << ": " << e.what();  // no legal choice
      continue;
    }
    if (!a.found) continue;
    ++found;
    SCOPED_TRACE(fmt::format("seed {}, {}, {}", seed, preset, to_string(a.plan.choice)));
    expect_sums(a);
    for (const PlannedMemoryByTier& rank : a.memory)
      for (size_t tier = 0; tier < kTiers; ++tier)
        for (const int64_t bytes : {rank[tier].weights, rank[tier].gradients, rank[tier].optimizer,
                                    rank[tier].activations, rank[tier].buffers}) {
          EXPECT_GE(bytes, 0);
          if (bytes > 0) seen.insert(std::string(name_of(static_cast<Tier>(tier))));
        }
    seen.insert(preset);
    if (a.plan.choice.num_stages > 1) seen.insert(std::string(name_of(a.plan.choice.schedule)));
    for (const PlannedLayers& l : a.plan.layers)
      seen.insert(
          {fmt::format("zero {}", l.strategy.zero), fmt::format("recompute {}", name_of(l.strategy.recompute))});
  }
  // 4 models, 3 tiers, 4 levels of sharding, 3 of recomputation, all schedules.
  EXPECT_EQ(seen.size(), 14 + kPipelineSchedules.size()) << fmt::format("{}", fmt::join(seen, ", "));
  EXPECT_GE(found, 80);
}

}  // namespace
}  // namespace tern
