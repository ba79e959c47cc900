#include "plan/plan_file.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/rng.h"
#include "base/text.h"
#include "spec/recompute.h"

namespace tern {
namespace {

Plan example() {
  Plan p;
  p.model = "llama-2-7b", p.hardware = "8 × H100", p.node = "dgx", p.parameters = 6738415616;
  p.job = {.batch = 64, .seq = 4096, .capacity_factor = 1.1};
  p.choice = {.mesh = {.tensor = 2, .context = 1, .data = 2},
              .num_stages = 2,
              .schedule = PipelineSchedule::zb_h1,
              .micro_batch = 1,
              .num_micro = 32};
  p.layers = {{0, 17, 0, {1, Recompute::none, Tier::device, Tier::host}},
              {17, 1, 0, {3, Recompute::full, Tier::disk, Tier::device}},
              {18, 16, 1, {2, Recompute::attention, Tier::host, Tier::device}}};
  p.step_ps = 4'000'000'000'000, p.bound_ps = 3'000'000'000'000, p.model_ps = 3'500'000'000'000;
  p.model_bound_ps = 3'500'000'000'000;
  const TierBytes capacity{77'000'000'000, 200'000'000'000, 1};
  p.ranks = {{"dgx", {70'000'000'000, 5, 0}, capacity, 3, 2, 1}, {"desk", {60'000'000'000, 0, 7}, {1, 2, 3}, 4, 5, 6}};
  p.stages = {{1, 2, 3, 4, 5}, {6, 7, 8, 0, 0}};
  p.program = {.checksum = 0x0012ab34, .instructions = 4711, .step_ps = 4'000'000'000'001};
  p.price_per_hour = 20.5, p.flops_share = 0.41, p.binds = "device memory on stage 0";
  p.counts = {100, 80, 20, 0};
  p.restrictions = {"interleaved: equal chunks"};
  p.families = {{"tensor 4", true, true, "tp 4", 5'000'000'000'000, 4'500'000'000'000},
                {"stages 1", false, false, "", 0, 0}};
  return p;
}

std::string message_of(const std::string& text) {
  try {
    parse_plan(text, "p.json");
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::bad_file) << e.what();
    return e.what();
  }
  return "";
}

TEST(PlanFile, WhatIsReadBackIsTheSamePlanAndTheSameBytes) {
  const Plan p = example();
  const std::string text = plan_json(p);
  const Plan back = parse_plan(text, "p.json");
  EXPECT_EQ(back, p);
  EXPECT_EQ(plan_json(back), text);
  EXPECT_DOUBLE_EQ(p.simulator_gap(), 0.25);
  EXPECT_EQ(p.model_gap(), 0);
  EXPECT_DOUBLE_EQ(p.tokens_per_second(), 65536);
}

TEST(PlanFile, ExchangesBesideProductsAreWrittenOnlyWhereTheyWereAskedFor) {
  Plan p = example();
  EXPECT_EQ(plan_json(p).find("tp_comm_overlap"), std::string::npos);
  p.job.tensor_overlap = true;
  const std::string text = plan_json(p);
  EXPECT_EQ(parse_plan(text, "p.json"), p);
  EXPECT_NE(
      message_of(replace_all(text, "\"tp_comm_overlap\": true", "\"tp_comm_overlap\": 1")).find("tp_comm_overlap"),
      std::string::npos);
}

TEST(PlanFile, WrongFilesGetMessagesThatTeach) {
  const std::string good = plan_json(example());
  ASSERT_EQ(message_of(good), "");
  const auto with = [&](std::string_view from, std::string_view to) {
    EXPECT_NE(good.find(from), std::string::npos) << from;
    return message_of(replace_all(good, from, to));
  };
  EXPECT_NE(with("\"version\": 1", "\"version\": 9").find("version: 9, this tern reads 1"), std::string::npos);
  EXPECT_NE(with("\"tensor\"", "\"tensr\"").find("choice.tensor: is missing"), std::string::npos);
  EXPECT_NE(with("\"zero\": 3", "\"zero\": 4").find("layers[1].zero: 4, expected 0 to 3"), std::string::npos);
  EXPECT_NE(with("\"first\": 17", "\"first\": 16").find("layers[1].first: 16, expected 17"), std::string::npos);
  EXPECT_NE(with("\"stage\": 1", "\"stage\": 2").find("stages follow each other"), std::string::npos);
  EXPECT_NE(with("\"stages\": 2", "\"stages\": 3").find("fill 2 virtual stages"), std::string::npos);
  EXPECT_NE(with("\"zb-h1\"", "\"zb-h3\"").find("'zb-h3' is none of gpipe, 1f1b, 1f1b-deep, "), std::string::npos);
  EXPECT_NE(with("\"open\": 0", "\"open\": -1").find("proof.choices.open: -1, expected 0"), std::string::npos);
  EXPECT_NE(with("\"open\": 0", "\"open\": 0, \"opn\": 1").find("opn"), std::string::npos);
  EXPECT_NE(with("\"ranks\": [", "\"ranks\": [3, ").find("expected an object"), std::string::npos);
  EXPECT_NE(with("\"0012ab34\"", "\"12ab34\"").find("predicted.program.checksum: '12ab34', expected eight"),
            std::string::npos);
  EXPECT_NE(with("\"0012ab34\"", "\"0012ab3g\"").find("expected eight hexadecimal digits"), std::string::npos);
  EXPECT_NE(with("\"weight_ps\": 8", "\"weight_ps\": -8").find("predicted.stages[1].weight_ps: -8"), std::string::npos);
  EXPECT_NE(
      with("\"expert\": 1", "\"expert\": 3").find("choice.expert: 3 × expert_tensor 1 does not divide the 4 devices"),
      std::string::npos);
  EXPECT_NE(with("\"zb-h1\"", "\"zb-v\"").find("choice.schedule: 1 chunks: schedule zb-v has two"), std::string::npos);
  Plan alone = example();
  alone.choice.num_stages = 1, alone.layers[2].stage = 0, alone.ranks.pop_back(), alone.stages.pop_back();
  EXPECT_NE(message_of(plan_json(alone)).find("choice.schedule: zb-h1 on one stage, expected 1f1b"), std::string::npos);
  alone.choice.schedule = kOneStageSchedule;
  EXPECT_EQ(message_of(plan_json(alone)), "");
  // 2^90: 64 bits would wrap round to 0.
  alone.choice.mesh = {.tensor = 1 << 30, .context = 1 << 30, .data = 1 << 30};
  EXPECT_NE(message_of(plan_json(alone)).find("are more than 2147483648 devices"), std::string::npos);
  EXPECT_NE(message_of("[]").find("expected an object"), std::string::npos);
  EXPECT_NE(message_of("{"), "");
  EXPECT_NE(message_of("steps = 5").find("; expected a plan, the file that `tern plan --output PLAN.json` writes"),
            std::string::npos);
  Plan few = example();
  few.stages.pop_back();
  EXPECT_NE(message_of(plan_json(few)).find("predicted.stages: 1, expected one per virtual stage (2 × 1)"),
            std::string::npos);
}

// Untrusted input: bytes changed at random give the plan or an error that names the file, nothing else.
TEST(PlanFile, ChangedBytesAreErrorsOrPlans) {
  const std::string good = plan_json(example());
  int refused = 0;
  for (uint64_t i = 0; i < 3000; ++i) {
    std::string text = good;
    for (uint64_t k = 0; k < 1 + i % 3; ++k)
      text[random_u64({7, i}, 2 * k) % text.size()] = static_cast<char>(32 + random_u64({7, i}, 2 * k + 1) % 95);
    try {
      (void)plan_json(parse_plan(text, "p.json"));
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::bad_file) << e.what();
      EXPECT_TRUE(std::string_view(e.what()).starts_with("p.json: ")) << e.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace tern
