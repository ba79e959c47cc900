// tern plan where nothing fits: what it says, and that its advice holds.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "apps/plan_verb_testing.h"
#include "planner/words/smallest_changes.h"

namespace tern {
namespace {

TEST_F(PlanVerb, WhatDoesNotFitSaysTierBytesNearestAndWhatWouldFit) {
  const Outcome o = tern("plan llama-3-70b" + kNode + " --batch 64 --seq 8192 --schedules 1f1b");
  EXPECT_EQ(o.code, 3) << o.text;
  for (const char* part :
       {"the device memory of each device has", "; with ", " more there is a plan (tp ", "What would fit: "})
    EXPECT_TRUE(has(o, part)) << part << "\n" << o.text;
}

// Three seconds of looking gave what a machine had time for: now it is the same everywhere.
TEST_F(PlanVerb, WhatWouldFitIsTheSameOnEveryMachine) {
  const Outcome o = tern("plan llama-3-405b --hardware h100 --nodes 2 --batch 64 --seq 8192");
  EXPECT_EQ(o.code, 3) << o.text;
  EXPECT_TRUE(has(o, "What would fit: --adapters 16 (train low-rank products alone); --nodes 14")) << o.text;
}

TEST_F(PlanVerb, SoMuchMoreMemoryAsIsNamedIsEnough) {
  const std::string file = real_io().read(kHardware + "h100-node.toml"),
                    job = " --batch 64 --seq 8192 --max-seconds 5 --json 2>/dev/null";
  ASSERT_NE(file.find("\"80GB\""), std::string::npos);
  for (const int64_t gb : {110, 164}) {
    put("node.toml", replace_all(file, "\"80GB\"", fmt::format("\"{}GB\"", gb)));
    const Outcome no = tern("plan llama-3-70b --hardware node.toml" + job);
    ASSERT_EQ(no.code, 3) << gb;
    const int64_t more = parse_json(no.text, "refusal")["more_device_bytes"];
    EXPECT_LT(gb * 1'000'000'000 + more, 170'000'000'000) << "166 GB are enough";
    put("node.toml", replace_all(file, "\"80GB\"", fmt::format("\"{}B\"", gb * 1'000'000'000 + more)));
    EXPECT_EQ(tern("plan llama-3-70b --hardware node.toml" + job).code, 0) << gb;
  }
}

TEST_F(PlanVerb, AConfigurationThatDoesNotFitIsToldTheSmallestChange) {
  const std::string ask =
      "plan llama-2-7b" + kNode + " --batch 16 --seq 4096 --fix tp=1,dp=8,zero=0,recompute=none,layers=even";
  const Outcome o = tern(ask);
  EXPECT_EQ(o.code, 3) << o.text;
  EXPECT_TRUE(has(o, "Smallest changes that fit, fastest first: zero=0 → 3 (")) << o.text;
  const Json j = parse_json(tern(ask + " --json 2>/dev/null").text, "refusal");
  const std::string fix = j["smallest_changes"][0]["fix"].get<std::string>();
  const Outcome changed =
      tern("plan llama-2-7b" + kNode + " --batch 16 --seq 4096 --json --fix " + fix + " 2>/dev/null");
  ASSERT_EQ(changed.code, 0) << changed.text;
  EXPECT_EQ(parse_json(changed.text, "plan")["predicted"]["step_ps"], j["smallest_changes"][0]["step_ps"]);
}

TEST_F(PlanVerb, AChangeThatOffloadsSaysSoAndFits) {
  const std::string axes = "tp=1,dp=8,zero=0,recompute=full,layers=even";
  const std::string job = "plan llama-2-7b" + kNode + " --batch 16 --seq 4096 --json --fix ";
  const Json changes = parse_json(tern(job + axes + " 2>/dev/null").text, "refusal")["smallest_changes"];
  const auto offloads =
      std::find_if(changes.begin(), changes.end(), [](const Json& c) { return c["offload"] == "states"; });
  ASSERT_NE(offloads, changes.end()) << changes;
  EXPECT_EQ((*offloads)["change"], "--offload states");
  EXPECT_EQ((*offloads)["fix"], axes);
  const Outcome changed = tern(job + axes + " --offload states 2>/dev/null");
  ASSERT_EQ(changed.code, 0) << changed.text;
  EXPECT_EQ(parse_json(changed.text, "plan")["predicted"]["step_ps"], (*offloads)["step_ps"]);
}

TEST_F(PlanVerb, SmallerModelsThatAreNamedHaveSoManyPositions) {
  const Outcome o = tern("plan llama-3-70b --hardware rtx3060 --batch 8 --seq 2048");
  EXPECT_EQ(o.code, 3) << o.text;
  EXPECT_FALSE(has(o, "gpt2")) << "1,024 learned positions: " << o.text;
}

// The cheapest change is to take back what was asked.
TEST_F(PlanVerb, AdviceBeginsWithTheRestrictionsThatWereGiven) {
  const Outcome o =
      tern("plan llama-2-7b" + kNode +
           " --batch 16 --seq 4096 --schedules 1f1b --zero 0 --max-tensor 1 --max-context 1 --max-stages 1");
  EXPECT_EQ(o.code, 3) << o.text;
  EXPECT_TRUE(has(o, "What would fit: without --zero")) << o.text;
}

TEST_F(PlanVerb, WithoutTimeForAPlanItIsUndecidedNotTooLarge) {
  const Outcome o =
      tern("plan llama-3-405b --hardware " + kHardware + "h100-16384.toml --batch 2048 --seq 8192 --max-seconds 0.001");
  EXPECT_EQ(o.code, 8) << o.text;
  EXPECT_TRUE(has(o, "no plan was found within")) << o.text;
}

// Whatever a refusal under --emit vllm names is planned with it.
TEST_F(PlanVerb, WhatWouldDoForVllmIsWhatItRuns) {
  const std::string plan = "plan llama-3-405b --inference --hardware h100 --emit vllm";
  const Outcome o = tern(plan);
  EXPECT_EQ(o.code, 3) << o.text;
  EXPECT_TRUE(has(o, "What would do: ") && has(o, "--nodes 2")) << o.text;
  for (const char* none : {"--offload all", "--kv-dtype", "--weight-dtype"}) EXPECT_FALSE(has(o, none)) << o.text;
  EXPECT_EQ(tern(plan + " --nodes 2").code, 0);
}

}  // namespace
}  // namespace tern
