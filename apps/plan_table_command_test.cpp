// tern plan calibrate and tern plan table as a person meets them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "base/io.h"
#include "base/json.h"
#include "base/shell_testing.h"
#include "hardware/machines.h"

#include <nlohmann/json.hpp>

namespace tern {
namespace {

// Times that no machine took: they follow no rule but the order of sizes.
constexpr const char* kRuns =
    "# GPUs,global batch,micro batch,hidden size,attention heads,# layers,sequence length,tensor parallelism,data "
    "parallelism,pipeline parallelism,iteration time (ms)\n"
    "8,16,1,1024,16,8,1024,1,8,1,90\n8,16,1,1024,16,8,1024,2,4,1,120\n8,16,1,1024,16,8,1024,2,2,2,150\n"
    "8,16,2,1024,16,8,1024,8,1,1,230\n8,32,2,2048,16,8,1024,4,2,1,400\n8,32,2,2048,16,8,1024,1,8,1,300\n";

class PlanTableVerb : public testing::Test {
 protected:
  PlanTableVerb() {
    std::string pattern = testing::TempDir() + "tern-table-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    write_file_atomically(real_io(), join_path(folder_, "runs.csv"), kRuns);
  }
  ~PlanTableVerb() override { remove_all(real_io(), folder_); }
  Outcome tern(const std::string& rest, const std::string& errors = "2>&1") const {
    return run_shell("cd " + folder_ + "; env -u TERN_DATA " TERN_PROGRAM " " + rest + " " + errors);
  }
  std::string folder_;
};

TEST_F(PlanTableVerb, CalibratesThenPricesRowsAndPlansWithAnErrorBar) {
  const Outcome fit = tern("plan calibrate runs.csv --hardware a100-80g --software some --output c.toml");
  ASSERT_EQ(fit.code, 0) << fit.text;
  EXPECT_NE(fit.text.find("left out   by layout"), std::string::npos) << fit.text;
  EXPECT_NE(fit.text.find("wrote c.toml"), std::string::npos);

  const Outcome table = tern("plan table runs.csv --calibration c.toml --json", "2>/dev/null");
  ASSERT_EQ(table.code, 0);
  const Json json = parse_json(table.text, "table");
  ASSERT_EQ(json["rows"].size(), 6u);
  EXPECT_EQ(json["unit"], "ms");
  EXPECT_EQ(json["rows"][1]["measured"], 120);
  const double predicted = json["rows"][1]["predicted"];
  EXPECT_NEAR(json["rows"][1]["error"].get<double>(), predicted / 120 - 1, 1e-12);
  EXPECT_LE(json["rows"][1]["low"].get<double>(), predicted);
  EXPECT_GE(json["rows"][1]["high"].get<double>(), predicted);

  const std::string plan =
      "plan gpt2 --hardware a100-80g --dtype f16 --batch 16 --seq 512 --calibration c.toml "
      "--schedules 1f1b --max-context 1";
  const Outcome words = tern(plan);
  ASSERT_EQ(words.code, 0) << words.text;
  EXPECT_NE(words.text.find("error bar  "), std::string::npos) << words.text;
  ASSERT_EQ(tern(plan + " --certify --output plan.json").code, 0);
  const Json file = parse_json(real_io().read(join_path(folder_, "plan.json")), "plan");
  const Json& error = file["predicted"]["error"];
  EXPECT_EQ(error["software"], "some");
  EXPECT_LE(error["low_ps"], file["predicted"]["step_ps"]);
  EXPECT_GE(error["high_ps"], file["predicted"]["step_ps"]);
  EXPECT_EQ(tern(plan + " --check plan.json").code, 0);
  // Without the calibration it is a plan for another machine.
  const Outcome other = tern("plan gpt2 --hardware a100-80g --dtype f16 --batch 16 --seq 512 --check plan.json");
  EXPECT_EQ(other.code, 4) << other.text;
  EXPECT_NE(other.text.find("calibrated by 6 runs of some"), std::string::npos) << other.text;
}

// One configuration is one figure, whether a table or a plan prices it; a table's runs in f16 keep f16 gradients.
TEST_F(PlanTableVerb, APlanUnderACalibrationIsWhatItsTableSays) {
  write_file_atomically(real_io(), join_path(folder_, "one.csv"),
                        "gpus,global batch,micro batch,model,sequence length,tensor parallelism,data parallelism\n"
                        "8,16,2,gpt2,512,2,4\n");
  ASSERT_EQ(tern("plan calibrate runs.csv --hardware a100-80g --output c.toml").code, 0);
  const Outcome table = tern("plan table one.csv --calibration c.toml --json", "2>/dev/null");
  ASSERT_EQ(table.code, 0);
  const std::string plan =
      "plan gpt2 --hardware a100-80g --dtype f16 --batch 16 --seq 512 --calibration c.toml --output p.json --fix "
      "tp=2,cp=1,dp=4,ep=1,etp=1,pp=1,chunks=1,schedule=1f1b,micro-batch=2,zero=0,recompute=full,states=device,"
      "activations=device,layers=even";
  const auto step = [&](const std::string& more) {
    const Outcome out = tern(plan + more);
    EXPECT_EQ(out.code, 0) << out.text;
    EXPECT_EQ(out.text.find("as in the runs of the calibration") != std::string::npos, more.empty()) << out.text;
    return parse_json(real_io().read(join_path(folder_, "p.json")), "plan")["predicted"]["step_ps"].get<double>() / 1e9;
  };
  const double wanted = parse_json(table.text, "table")["rows"][0]["predicted"];
  EXPECT_NEAR(step("") / wanted, 1, 1e-9);
  EXPECT_GT(step(" --gradients f32") / wanted, 1 + 1e-6);  // more to reduce
  const Outcome bf16 = tern("plan gpt2 --hardware a100-80g --batch 16 --seq 512 --gradients f16");
  EXPECT_EQ(bf16.code, 2);
  EXPECT_NE(bf16.text.find("--gradients f16 goes with --dtype f16 alone"), std::string::npos) << bf16.text;
}

// The device is that of the nodes there are, not the first that the file defines.
TEST_F(PlanTableVerb, CalibratesTheDeviceThatItsRowsArePricedOn) {
  std::string two = cluster_text("v100");
  const std::string a100 = cluster_text("a100-80g");
  const size_t from = a100.find("[device.a100]"), to = a100.find("[[network]]"), at = two.find("[device.v100]");
  two.insert(at, a100.substr(from, to - from));
  write_file_atomically(real_io(), join_path(folder_, "two.toml"), two);
  const Outcome fit = tern("plan calibrate runs.csv --hardware two.toml --output c.toml");
  ASSERT_EQ(fit.code, 0) << fit.text;
  const std::string file = real_io().read(join_path(folder_, "c.toml"));
  EXPECT_NE(file.find("device = \"v100\""), std::string::npos) << file.substr(0, 300);
  EXPECT_NE(file.find("peak = 125000000000000"), std::string::npos) << file.substr(0, 300);
  EXPECT_EQ(tern("plan table runs.csv --calibration c.toml").code, 0);
}

TEST_F(PlanTableVerb, WritesItsFileWhoeverReadsWhatItPrints) {
  tern("plan calibrate runs.csv --hardware a100-80g --output c.toml 2>/dev/null | head -c 1", "");
  EXPECT_EQ(tern("plan table runs.csv --calibration c.toml").code, 0);
}

TEST_F(PlanTableVerb, RefusesWhatItCannotUse) {
  EXPECT_EQ(tern("plan calibrate runs.csv").code, 2);
  EXPECT_EQ(tern("plan table runs.csv").code, 2);
  EXPECT_EQ(tern("plan calibrate none.csv --hardware a100-80g").code, 4);
  EXPECT_EQ(tern("plan calibrate runs.csv --hardware a100-80g --output runs.csv").code, 2);
  write_file_atomically(real_io(), join_path(folder_, "precious.txt"), std::string_view("precious"));
  const Outcome kept = tern("plan calibrate runs.csv --hardware a100-80g --output precious.txt");
  EXPECT_EQ(kept.code, 2);
  EXPECT_NE(kept.text.find("holds something else than a calibration"), std::string::npos) << kept.text;
  EXPECT_EQ(real_io().read(join_path(folder_, "precious.txt")), "precious");
  EXPECT_NE(
      tern("plan calibrate runs.csv --hardware a100-80g --output none/c.toml").text.find("there is no folder none"),
      std::string::npos);
  EXPECT_EQ(tern("plan table runs.csv --hardware a100-80g").code, 0);  // on the machine's own rates
  ASSERT_EQ(tern("plan calibrate runs.csv --hardware a100-80g --output c.toml").code, 0);
  const Outcome other = tern("plan gpt2 --hardware h100 --dtype f16 --batch 16 --seq 512 --calibration c.toml");
  EXPECT_EQ(other.code, 2);
  EXPECT_NE(other.text.find("calibration of device 'a100'"), std::string::npos) << other.text;
  const Outcome dtype = tern("plan gpt2 --hardware a100-80g --batch 16 --seq 512 --calibration c.toml");
  EXPECT_EQ(dtype.code, 2);
  EXPECT_NE(dtype.text.find("--dtype f16"), std::string::npos) << dtype.text;
}

}  // namespace
}  // namespace tern
