// tern plan --lengths, --prompt-lengths and --output-lengths as a person meets them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "base/io.h"
#include "base/json.h"
#include "base/shell_testing.h"
#include "base/source_dir_testing.h"

#include <nlohmann/json.hpp>

namespace tern {
namespace {

const std::string kPlan = "plan llama-2-7b --hardware " + source_dir() +
                          "/examples/hardware/h100-node.toml --batch 16 --seq 4096 --schedules 1f1b --max-tensor 2 "
                          "--max-context 1";
const std::string kServe = "plan llama-3-8b --hardware h100 --inference --users 64";

class PlanLengths : public testing::Test {
 protected:
  PlanLengths() {
    std::string pattern = testing::TempDir() + "tern-lengths-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    put("mixed.csv", "length,count\n100,900\n2000,90\n30000,10\n");
    put("whole.csv", "4096\n4096\n");
  }
  ~PlanLengths() override { remove_all(real_io(), folder_); }
  std::string path(const std::string& name) const { return join_path(folder_, name); }
  Outcome tern(const std::string& rest) const { return run_shell("cd " + folder_ + "; 2>&1 " TERN_PROGRAM " " + rest); }
  Json json(const std::string& rest) const {
    const Outcome o = tern(rest + " --json 2>/dev/null");
    EXPECT_EQ(o.code, 0) << rest << "\n" << o.text;
    return parse_json(o.text, "plan");
  }
  void put(const std::string& name, const std::string& text) const {
    write_file_atomically(real_io(), path(name), text);
  }
  std::string folder_;
};

TEST_F(PlanLengths, TheReportSaysRealTokensPaddingPairsAndTheSlowestRank) {
  const Outcome packed = tern(kPlan + " --lengths mixed.csv --tokens 1e10 --fix dp=8 --details");
  ASSERT_EQ(packed.code, 0) << packed.text;
  for (const char* part :
       {" real tokens/s, ",
        "lengths    1,000 sequences of 570 tokens on average (99 of 100 up to 2,000, longest 30,000)",
        "packed: laid end to end", "0.00 % of the windows is padding", "lie in more than one window", "pairs      ",
        "slowest    of 8 data ranks", "sampled, seed 1)", "worst      a window has 4,096 rows",
        "tokens and pairs are real ones", "10.0B real tokens"})
    EXPECT_TRUE(has(packed, part)) << part << "\n" << packed.text;
  const Json j = json(kPlan + " --lengths mixed.csv --batching padded --tokens 1e10");
  const Json &r = j["report"], &l = r["lengths"];
  // 900 of 100, 90 of 2000, 10 of 4096 and 25904 cut.
  EXPECT_NEAR(l["padding_share"].get<double>(), 1 - (90000 + 180000 + 40960) / 1000.0 / 4096, 1e-12);
  EXPECT_NEAR(l["cut_tokens_share"].get<double>(), 259040.0 / 570000, 1e-12);
  EXPECT_NEAR(l["real_tokens_per_second"].get<double>() / l["window_tokens_per_second"].get<double>(), 310.96 / 4096,
              1e-12);
  EXPECT_EQ(r["tokens_per_second"], l["real_tokens_per_second"]);
  EXPECT_NEAR(r["mfu"].get<double>(),
              r["flops_per_token"].get<double>() * r["tokens_per_second"].get<double>() /
                  r["peak_flops_of_used_devices"].get<double>(),
              1e-12)
      << "the formula that is named";
  EXPECT_NEAR(r["run"]["steps"].get<double>(), 1e10 / (16 * 310.96), 1);
  EXPECT_EQ(j["job"]["lengths"]["tokens"], 570000);
}

TEST_F(PlanLengths, LengthsEqualToSeqPrintTheSameNumbers) {
  Json with = json(kPlan + " --lengths whole.csv"), without = json(kPlan);
  with["job"].erase("lengths");
  for (const char* key : {"lengths", "mfu_formula"}) with["report"].erase(key), without["report"].erase(key);
  EXPECT_EQ(with, without);
}

TEST_F(PlanLengths, ACertifiedPlanIsCheckedWithItsLengths) {
  const std::string plan = kPlan + " --lengths mixed.csv";
  EXPECT_EQ(tern(plan + " --certify --output p.json").code, 0);
  const Outcome same = tern(plan + " --check p.json");
  EXPECT_EQ(same.code, 0) << same.text;
  const Outcome other = tern(kPlan + " --check p.json");
  EXPECT_EQ(other.code, 4) << other.text;
  EXPECT_TRUE(has(other, "sequences of other lengths")) << other.text;
}

TEST_F(PlanLengths, WhatMakesNoSenseIsRefused) {
  put("bad.csv", "100\nmany\n");
  for (const auto& [rest, code, words] : std::vector<std::tuple<std::string, int, const char*>>{
           {kPlan + " --batching padded", 2, "--batching is of --lengths"},
           {kPlan + " --lengths mixed.csv --emit megatron", 2, "--emit megatron with --lengths"},
           {kPlan + " --lengths mixed.csv --batching sorted", 2, "packed"},
           {kPlan + " --lengths bad.csv", 4, "bad.csv:2: 'many' is no length"},
           {kPlan + " --lengths none.csv", 4, "none.csv"},
           {kPlan + " --prompt-lengths mixed.csv", 2, "--prompt-lengths is of --inference"},
           {"plan t5-large --hardware h100 --batch 8 --seq 512 --lengths mixed.csv", 2, "is of one sequence"},
           {kServe + " --lengths mixed.csv", 2, "--prompt-lengths and --output-lengths"},
           {kServe + " --prompt-lengths mixed.csv --prompt-tokens 7", 2, "give one of them"},
           {kServe + " --output-lengths bad.csv", 4, "bad.csv:2"}}) {
    const Outcome o = tern(rest);
    EXPECT_EQ(o.code, code) << rest << "\n" << o.text;
    EXPECT_TRUE(has(o, words)) << rest << "\n" << o.text;
  }
}

TEST_F(PlanLengths, ServingFollowsTheMeansAndKeepsRoomForNearlyAll) {
  const Outcome o = tern(kServe + " --prompt-lengths mixed.csv --max-tokens 128");
  ASSERT_EQ(o.code, 0) << o.text;
  for (const char* part : {"prompts of 570 on average (99 of 100 up to 2,000, longest 30,000), answers of 128 tokens",
                           "room       ", "at 99 of 100 moments", "to the first token of a prompt of 2,000"})
    EXPECT_TRUE(has(o, part)) << part << "\n" << o.text;
  const Json j = json(kServe + " --prompt-lengths mixed.csv --max-tokens 128"), &l = j["lengths"];
  const double mean = l["mean_context_in_flight"].get<double>(), users = j["decode"]["users_per_copy"].get<double>();
  EXPECT_NEAR(mean, 698, 1e-9);
  EXPECT_GT(l["room_tokens_per_copy"].get<double>(), mean * users);
  EXPECT_LT(l["room_tokens_per_copy"].get<double>(), l["longest_tokens_per_copy"].get<double>());
  EXPECT_GE(j["ttft_s"].get<double>(), l["mean_ttft_s"].get<double>());
  put("one.csv", "2048,9\n");
  Json with = json(kServe + " --prompt-lengths one.csv --max-tokens 256");
  with.erase("lengths");
  EXPECT_EQ(with, json(kServe + " --prompt-tokens 2048 --max-tokens 256"));
}

}  // namespace
}  // namespace tern
