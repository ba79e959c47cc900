// tern plan as a person meets it: what it prints and writes, and how it ends.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <cctype>
#include <string>

#include "apps/machine_testing.h"
#include "apps/plan_verb_testing.h"
#include "base/io.h"
#include "base/json.h"
#include "base/source_dir_testing.h"
#include "base/text.h"
#include "base/units.h"
#include "planner/words/shadow_prices.h"

namespace tern {
namespace {

TEST_F(PlanVerb, ACertifiedPlanIsAcceptedAndAChangedOneIsNot) {
  const std::string plan = "plan llama-2-7b" + kNode + kJob;
  const Outcome made = tern(plan + " --certify --output plan.json");
  EXPECT_EQ(made.code, 0) << made.text;
  EXPECT_TRUE(has(made, "audit      accepted")) << made.text;
  const Outcome accepted = tern(plan + " --check plan.json");
  EXPECT_EQ(accepted.code, 0) << accepted.text;
  EXPECT_TRUE(has(accepted, "accepted: the plan fits")) << accepted.text;
  EXPECT_TRUE(has(accepted, "not judged: predicted.binds")) << accepted.text;
  const Outcome told = tern(plan + " --check plan.json --json");
  EXPECT_EQ(told.code, 0);
  const Json verdict = parse_json(told.text, "verdict");
  EXPECT_EQ(verdict["verdict"], "accepted");
  EXPECT_TRUE(verdict["accepted"].get<bool>() && verdict["plan_holds"].get<bool>());
  EXPECT_EQ(verdict["open"], 0);
  Json changed = json_of("plan.json");
  changed["predicted"]["price_per_hour"] = changed["predicted"]["price_per_hour"].get<double>() + 1;
  put("changed.json", changed.dump());
  const Outcome rejected = tern(plan + " --check changed.json");
  EXPECT_EQ(rejected.code, 4) << rejected.text;
  EXPECT_TRUE(has(rejected, "changed.json: the plan does not hold: its devices cost")) << rejected.text;
  const Outcome other = tern("plan llama-2-7b --hardware h200" + kJob + " --check plan.json");
  EXPECT_EQ(other.code, 4);
  EXPECT_TRUE(has(other, "not for")) << other.text;
}

// A bound that the search knows and the audit does not prove is no lie.
TEST_F(PlanVerb, AnHonestPlanWithoutCertificateEndsOtherwiseThanAWrongOne) {
  const std::string plan = "plan llama-2-7b" + kNode + kJob;
  ASSERT_EQ(tern(plan + " --output plan.json").code, 0);
  Json honest = json_of("plan.json");
  honest["proof"]["bound_ps"] = honest["predicted"]["step_ps"];
  honest["proof"]["families"] = Json::array();
  put("honest.json", honest.dump());
  const Outcome o = tern(plan + " --check honest.json");
  EXPECT_EQ(o.code, 8) << o.text;
  EXPECT_TRUE(has(o, "the plan holds; its bound claims more than the audit proves")) << o.text;
  EXPECT_TRUE(has(o, "plan again with --certify")) << o.text;
  EXPECT_FALSE(has(o, "accepted")) << o.text;
}

TEST_F(PlanVerb, OverUnlikeNodesACertificateSaysOfWhatItSpeaks) {
  const std::string plan =
      "plan gpt2 --hardware " + kHardware + "mixed-desk.toml --batch 8 --seq 512 --schedules 1f1b --max-micro-batch 2";
  const Outcome made = tern(plan + " --certify --output plan.json");
  EXPECT_EQ(made.code, 8) << made.text;
  EXPECT_FALSE(has(made, "audit      accepted")) << made.text;
  EXPECT_TRUE(has(made, "not certified")) << made.text;
  EXPECT_EQ(tern(plan + " --check plan.json").code, 8);
  const Outcome told = tern(plan + " --check plan.json --json 2>/dev/null");
  EXPECT_EQ(told.code, 8);
}

TEST_F(PlanVerb, JsonHasThePlanTimeMemoryGapsBindsAndRivals) {
  const Outcome o = tern("plan llama-2-7b" + kNode + kJob + " --json --output plan.json 2>/dev/null");
  ASSERT_EQ(o.code, 0) << o.text;
  EXPECT_EQ(o.text, real_io().read(path("plan.json"))) << "standard output and the file are the same bytes";
  const Json p = parse_json(o.text, "plan");
  for (const char* key :
       {"/choice/tensor", "/layers/0/zero", "/predicted/step_ps", "/predicted/ranks/0/peak_bytes", "/predicted/binds",
        "/proof/bound_ps", "/proof/model_ps", "/proof/choices/open", "/proof/families/0/feature"})
    EXPECT_TRUE(p.contains(Json::json_pointer(key))) << key;
  EXPECT_GT(p["predicted"]["step_ps"].get<int64_t>(), 0);
}

// To the byte, in the JSON, the words and the page.
TEST_F(PlanVerb, MemoryIsToldByWhatItIsForAndAddsUp) {
  const Outcome o = tern("plan llama-2-13b" + kNode + " --batch 16 --seq 4096 --schedules 1f1b --max-context 1" +
                         " --fix pp=2,states=host --offload all --details --output plan.json --html plan.html");
  ASSERT_EQ(o.code, 0) << o.text;
  const Json p = json_of("plan.json");
  const std::string page = real_io().read(path("plan.html"));
  ASSERT_EQ(p["report"]["memory"].size(), 2u);
  for (size_t r = 0; r < 2; ++r)
    for (const char* tier : {"device", "host", "disk"}) {
      const Json& m = p["report"]["memory"][r][tier];
      int64_t sum = 0;
      for (const char* name : {"weights", "gradients", "optimizer", "activations", "buffers"}) {
        const int64_t bytes = m[name];
        sum += bytes;
        if (bytes == 0) continue;
        EXPECT_NE(page.find(">" + format_with_commas(bytes) + "<"), std::string::npos) << name;
        EXPECT_TRUE(has(o, format_bytes(bytes))) << name << "\n" << o.text;
      }
      EXPECT_EQ(sum, p["predicted"]["ranks"][r]["peak_bytes"][tier].get<int64_t>());
      EXPECT_EQ(m["total"], sum);
    }
  EXPECT_EQ(p["report"]["memory"][0]["device"]["optimizer"], 0) << "on the host";
  EXPECT_GT(p["report"]["memory"][0]["host"]["optimizer"], 0);
}

TEST_F(PlanVerb, GivenAxesAreKeptAndImpossibleOnesNameTheirLimit) {
  const std::string job = "plan llama-2-7b" + kNode + " --batch 16 --seq 4096";
  const Outcome one = tern(job +
                           " --fix tp=2,cp=1,dp=4,pp=1,micro-batch=1,zero=1,recompute=full,layers=even --certify "
                           "--details --output plan.json");
  EXPECT_EQ(one.code, 0) << one.text;
  EXPECT_TRUE(has(one, "tp 2, dp 4, pp 1, micro-batch 1 × 4")) << one.text;
  EXPECT_TRUE(has(one, "1 outer choices")) << one.text;
  EXPECT_TRUE(has(one, "0-33  stage 0    zero 1, recompute full")) << one.text;
  const Outcome elsewhere = tern(job + " --fix tp=4 --check plan.json");
  EXPECT_EQ(elsewhere.code, 4) << "a plan of another space";
  EXPECT_TRUE(has(elsewhere, "tensor 2: 4 is asked")) << elsewhere.text;
  const Outcome odd = tern(job + " --fix tp=3");
  EXPECT_EQ(odd.code, 2) << odd.text;
  EXPECT_TRUE(has(odd, "tensor 3: does not divide 32 heads")) << odd.text;
  const Outcome odds = tern(job + " --fix tp=8 --max-tensor 4");
  EXPECT_EQ(odds.code, 2) << odds.text;
  EXPECT_TRUE(has(odds, "at odds with --max-tensor 4")) << odds.text;
  const Outcome full = tern(job + " --fix tp=1,dp=8,zero=0,recompute=none,layers=even");
  EXPECT_EQ(full.code, 3) << full.text;
  EXPECT_TRUE(has(full, "without --fix")) << full.text;
}

// What follows from a plan: in words and in the JSON, which stays a plan that can be checked.
TEST_F(PlanVerb, TheReportHasMfuRunTiesWorthAndNodes) {
  const std::string ask =
      "plan llama-2-7b" + kNode + kJob + " --tokens 1e12 --mtbf 20000h --explain --pareto --details";
  const Outcome words = tern(ask + " --output plan.json");
  ASSERT_EQ(words.code, 0) << words.text;
  for (const char* part : {"MFU        ", "GFLOP a token", "recomputed work does not count", "run        1.0T tokens",
                           "Daly 2006", "cost       ", "measure    1. ", "worth      1 GB more memory per device",
                           "how many nodes", "(fewest devices, lowest cost, fastest)"})
    EXPECT_TRUE(has(words, part)) << part << "\n" << words.text;
  const Json j = json_of("plan.json"), &r = j["report"];
  const double share = r["flops_per_token"].get<double>() * r["tokens_per_second"].get<double>() /
                       r["peak_flops_of_used_devices"].get<double>();
  EXPECT_NEAR(r["mfu"].get<double>(), share, 1e-12) << "the formula that is named";
  EXPECT_EQ(r["shadow_prices"].size(), 4u);
  EXPECT_EQ(r["node_counts"].size(), 1u);
  EXPECT_EQ(r["measure_first"][0]["step_ps"], j["predicted"]["step_ps"]);
  EXPECT_GT(r["run"]["wall_seconds"].get<double>(), r["run"]["steps_seconds"].get<double>());
  EXPECT_EQ(tern("plan llama-2-7b" + kNode + kJob + " --certify --tokens 1e12 --output plan.json").code, 0);
  EXPECT_EQ(tern("plan llama-2-7b" + kNode + kJob + " --check plan.json").code, 0) << "a plan with its report";
}

// A search may take minutes: what the options ask beside it is looked at before.
TEST_F(PlanVerb, TermsThatCannotBeAreSaidBeforeTheSearch) {
  const std::string node = real_io().read(kHardware + "h100-node.toml");
  std::string diskless;
  for (const std::string_view line : split(node, '\n'))
    if (!line.starts_with("disk")) diskless += std::string(line) + "\n";
  put("diskless.toml", diskless);
  const std::string job = " --batch 16 --seq 4096";
  for (const auto& [words, why] : std::vector<std::pair<std::string, const char*>>{
           {"llama-2-7b" + kNode + " --mtbf 1000h", "--mtbf is of a whole run"},
           {"llama-2-7b --hardware diskless.toml --tokens 1e9", "give --checkpoint-time"},
           {"gpt2 --hardware " + kHardware + "mixed-desk.toml --pareto", "has several"}}) {
    const Outcome o = tern("plan " + words + job, "timeout 20");
    EXPECT_EQ(o.code, 2) << o.text;
    EXPECT_TRUE(has(o, why)) << o.text;
  }
  EXPECT_EQ(tern("plan llama-2-7b --hardware diskless.toml --tokens 1e9 --checkpoint-time 60" + kJob).code, 0);
}

// The reader of standard output may be gone after a line.
TEST_F(PlanVerb, FilesAreWrittenBeforeAnythingIsPrinted) {
  const Outcome o = run_shell("cd " + folder_ + "; " TERN_PROGRAM " plan llama-2-7b" + kNode + kJob +
                              " --output kept.json --html kept.html 2>errors | true; wc -c < kept.json");
  EXPECT_EQ(o.code, 0) << real_io().read(path("errors"));
  EXPECT_GT(json_of("kept.json")["predicted"]["step_ps"].get<int64_t>(), 0);
  EXPECT_TRUE(real_io().stat(path("kept.html")).has_value());
}

TEST_F(PlanVerb, AGivenPriceIsThatOfEveryLineAndOfTheFile) {
  const std::string plan = "plan llama-2-7b" + kNode + kJob + " --price-per-hour 7";
  const Outcome words = tern(plan + " --tokens 1e9 --pareto --certify --output plan.json");
  ASSERT_EQ(words.code, 0) << words.text;
  const Json j = json_of("plan.json");
  EXPECT_EQ(j["predicted"]["price_per_hour"], 7 * 8);
  const Json& run = j["report"]["run"];
  EXPECT_NEAR(run["cost"].get<double>(), 7 * run["device_hours"].get<double>(), 1e-6);
  const Json& point = j["report"]["node_counts"][0];
  const double an_hour = point["tokens_per_second"].get<double>() * 3600 / 1e6;
  EXPECT_NEAR(point["price_per_million_tokens"].get<double>() * an_hour, 7.0 * point["devices"].get<double>(), 1e-6);
  EXPECT_TRUE(has(words, "price      56.00 per hour")) << words.text;
  EXPECT_EQ(tern(plan + " --check plan.json").code, 0) << "judged at the price it was made at";
}

TEST_F(PlanVerb, ARunThatNeverFinishesIsSaidSo) {
  const std::string plan = "plan llama-2-7b" + kNode + kJob + " --tokens 1e12 --mtbf 10s";
  const Outcome words = tern(plan);
  EXPECT_EQ(words.code, 0) << words.text;
  EXPECT_TRUE(has(words, "never finishes with checkpoints and failures")) << words.text;
  const Outcome json = tern(plan + " --json 2>/dev/null");
  ASSERT_EQ(json.code, 0);
  const Json run = parse_json(json.text, "plan")["report"]["run"];
  EXPECT_FALSE(run["ends"].get<bool>());
  for (const char* key : {"wall_seconds", "failures", "device_hours", "cost"}) EXPECT_TRUE(run[key].is_null()) << key;
}

TEST_F(PlanVerb, ARangeOfBatchesTakesTheOneWithMostTokens) {
  const std::string plan = "plan llama-2-7b" + kNode + " --seq 4096 --schedules 1f1b --max-tensor 2 --max-context 1";
  const Outcome o = tern(plan + " --batches 8:32 --json 2>/dev/null");
  ASSERT_EQ(o.code, 0) << o.text;
  const Json j = parse_json(o.text, "plan"), &points = j["report"]["batches"];
  ASSERT_EQ(points.size(), 3u);
  for (const Json& p : points)
    EXPECT_LE(p["tokens_per_second"].get<double>(), j["report"]["tokens_per_second"].get<double>() * (1 + 1e-12));
  for (const char* wrong : {"8:4", "8", "8:", "8:16:0", "8:16:2:1", "1:1000:1", "a"})
    EXPECT_EQ(tern(plan + " --batches " + wrong).code, 2) << wrong;
}

TEST_F(PlanVerb, EmitWritesWhatOnlyThatFrameworkRunsAndRefusesWhatItHasNot) {
  const std::string job = " --batch 32 --seq 4096";
  const Outcome o =
      tern("plan llama-3-8b" + kNode + job + " --emit megatron --emit-output run.sh --output plan.json --details");
  ASSERT_EQ(o.code, 0) << o.text;
  EXPECT_TRUE(has(o, "within     what Megatron-LM runs")) << o.text;
  const std::string script = real_io().read(path("run.sh"));
  EXPECT_EQ(script, json_of("plan.json")["report"]["emit"]["text"].get<std::string>());
  EXPECT_EQ(run_shell("sh -n " + path("run.sh") + " 2>&1").text, "") << "a script that a shell can read";
  EXPECT_TRUE(has(o, script)) << "what is written is what was shown";
  EXPECT_TRUE(has(o, "ranks      rank = tensor + ")) << o.text;
  for (const auto& [words, why] : std::vector<std::pair<const char*, const char*>>{
           {"t5-large --emit megatron", "an encoder beside its decoder"},
           {"gpt2 --emit torchtitan", "this model"},
           {"llama-3-8b --emit deepspeed --adapters 8", "adapters"},
           {"llama-3-8b --emit torchtitan --fix schedule=zb-h1,pp=2", "no schedule zb-h1"},
           {"llama-3-8b --emit torchtitan --fix zero=1", "ZeRO 0, 2 or 3"},
           {"llama-3-8b --emit megatron --fix tp=2 --seq 4095", "--seq 4095 is no multiple of 2"},
           {"llama-3-8b --emit-output x.sh", "--emit-output without --emit"}}) {
    const bool sequence = std::string_view(words).find("--seq") != std::string_view::npos;
    const Outcome no = tern(std::string("plan ") + words + kNode + (sequence ? " --batch 32" : job));
    EXPECT_EQ(no.code, 2) << words << "\n" << no.text;
    EXPECT_TRUE(has(no, why)) << no.text;
  }
}

// The price, the words, the file; what has no group is refused; a judge asks for the same.
TEST_F(PlanVerb, ExchangesBesideProductsArePricedSaidAndWritten) {
  const std::string plan = "plan llama-2-7b" + kNode + kJob + " --fix tp=2,recompute=none";
  const Outcome off = tern(plan + " --output off.json"), on = tern(plan + " --tp-comm-overlap --output on.json");
  ASSERT_EQ(off.code, 0) << off.text;
  ASSERT_EQ(on.code, 0) << on.text;
  EXPECT_FALSE(has(off, "--tp-comm-overlap"));
  EXPECT_TRUE(has(on, "exchanges of rows pass beside products (--tp-comm-overlap)")) << on.text;
  EXPECT_FALSE(json_of("off.json")["job"].contains("tp_comm_overlap"));
  EXPECT_EQ(json_of("on.json")["job"]["tp_comm_overlap"], true);
  EXPECT_LT(json_of("on.json")["predicted"]["step_ps"], json_of("off.json")["predicted"]["step_ps"]);
  EXPECT_TRUE(has(tern(plan + " --check on.json"), "it is for --tp-comm-overlap on, not off"));
  EXPECT_EQ(tern(plan + " --tp-comm-overlap --check on.json").code, 0);
  EXPECT_TRUE(has(tern(plan + " --tp-comm-overlap --adapters 8"), "products with --adapters are not cut"));
  const Outcome one = tern("plan llama-2-7b" + kNode + kJob + " --fix tp=1 --tp-comm-overlap");
  EXPECT_EQ(one.code, 2);
  EXPECT_TRUE(has(one, "which --fix tp=1 excludes; leave one of the two out")) << one.text;
}

TEST_F(PlanVerb, ThePageAndThePictureStandAlone) {
  const std::string ask = "plan llama-2-7b" + kNode + kJob + " --fix pp=2";
  const Outcome o = tern(ask + " --html plan.html --picture plan.svg");
  ASSERT_EQ(o.code, 0) << o.text;
  const std::string page = real_io().read(path("plan.html")), picture = real_io().read(path("plan.svg"));
  EXPECT_EQ(page.rfind("<!doctype html>", 0), 0u) << page.substr(0, 40);
  for (const char* part : {"One step, ", "stage 1", "Most that a device holds", "Rivals", "MFU"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  for (const std::string& text : {page, picture})
    for (const char* part : {"<script", "src=", "href=", "@import", "url("})
      EXPECT_EQ(text.find(part), std::string::npos) << "nothing is fetched: " << part;
  EXPECT_EQ(picture.rfind("<svg ", 0), 0u);
  EXPECT_EQ(tern(ask + " --html plan.html --output plan.html").code, 2) << "one file for two things";
}

TEST_F(PlanVerb, AnInterruptLeavesThePlanSoFarWithItsGap) {
  // The proof takes hours, the first plan a second or two; on a slow machine the interrupt waits longer for it.
  // --foreground: else timeout signals its child and then its group, which are two interrupts if the first one is quick.
  Outcome o;
  for (int seconds = 1; seconds <= 128; seconds *= 2) {
    o = tern("plan llama-3-70b" + kNode + " --batch 16 --seq 4096 --offload all --output plan.json",
             fmt::format("env --default-signal=INT timeout --foreground --preserve-status -k 30 -s INT {}", seconds));
    EXPECT_EQ(o.code, 130) << o.text;
    if (!has(o, "before any plan was found")) break;
  }
  EXPECT_TRUE(has(o, "stopped; this is the best plan so far")) << o.text;
  EXPECT_TRUE(has(o, "proof ")) << o.text;
  const Json p = json_of("plan.json");
  EXPECT_GT(p["predicted"]["step_ps"].get<int64_t>(), p["proof"]["bound_ps"].get<int64_t>());
}

TEST_F(PlanVerb, AnOutputThatCannotBeWrittenIsSaidBeforeTheSearch) {
  const Outcome o = tern("plan llama-2-7b" + kNode + kJob + " --output nowhere/plan.json");
  EXPECT_NE(o.code, 0);
  EXPECT_FALSE(has(o, "proof")) << o.text;
  EXPECT_EQ(tern("plan llama-2-7b" + kNode + kJob + " --output .").code, 2);
}

// outputs_test.cpp has the pairs; here that the command asks before it works, and that the file is as it was.
TEST_F(PlanVerb, AnInputIsNotWrittenOver) {
  const std::string node = real_io().read(kHardware + "h100-node.toml");
  put("my.toml", node);
  for (const char* words : {"plan gpt2 --hardware my.toml --batch 8 --seq 512 --output my.toml",
                            "plan gpt2 --hardware my.toml --inference --emit vllm --emit-output ./my.toml",
                            "profile --import my.toml --output my.toml"}) {
    const Outcome o = tern(words);
    EXPECT_EQ(o.code, 2) << words << "\n" << o.text;
    EXPECT_TRUE(has(o, "is the file that is read")) << o.text;
    EXPECT_EQ(real_io().read(path("my.toml")), node);
  }
  const Outcome nowhere = tern("plan gpt2" + kNode + " --inference --emit vllm --emit-output nowhere/serve.sh");
  EXPECT_NE(nowhere.code, 0);
  EXPECT_FALSE(has(nowhere, "tokens/s")) << "said before anything is planned\n" << nowhere.text;
}

TEST_F(PlanVerb, SequencesBeyondLearnedPositionsAreRefusedAndBeyondDeclaredOnesNoted) {
  const std::string small = " --batch 8 --schedules 1f1b --max-tensor 1 --max-stages 1";
  for (const char* more :
       {" --seq 1025", " --seq 1025 --emit megatron --emit-output not.sh", " --seq 1025 --check x"}) {
    const Outcome o = tern("plan gpt2" + kNode + small + more);
    EXPECT_EQ(o.code, 2) << more;
    EXPECT_TRUE(has(o, "--seq: 1,025 tokens, the model has 1,024 learned positions; give at most that")) << o.text;
  }
  EXPECT_FALSE(real_io().stat(path("not.sh")).has_value());
  EXPECT_EQ(tern("plan gpt2" + kNode + small + " --seq 1024").code, 0);
  const Outcome serving = tern("plan gpt2" + kNode + " --inference --prompt-tokens 1000 --max-tokens 25");
  EXPECT_EQ(serving.code, 2);
  EXPECT_TRUE(has(serving, "1,025 tokens, the model has 1,024 learned positions")) << serving.text;
  const Outcome rotary = tern("plan llama-2-7b" + kNode + " --batch 8 --seq 8192 --schedules 1f1b --max-stages 1");
  EXPECT_EQ(rotary.code, 0) << rotary.text;
  EXPECT_TRUE(has(rotary, "within     --seq 8192: the model declares 4096 positions")) << rotary.text;
}

TEST_F(PlanVerb, AStepWithoutACalibrationSaysSo) {
  const std::string job =
      "plan gpt2 --batch 8 --seq 512 --schedules 1f1b --max-tensor 1 --max-stages 1 --output p.json";
  const Outcome o = tern(job + kNode);
  ASSERT_EQ(o.code, 0) << o.text;
  EXPECT_TRUE(has(o, "uncalibrated: rates of data sheets; published runs took 0.74 to 2.59 times as long")) << o.text;
  EXPECT_TRUE(json_of("p.json")["report"].contains("uncalibrated"));
}

TEST_F(PlanVerb, AWrongNameListsThePresetsWhateverElseIsMissing) {
  const Outcome o = tern("plan llama");
  EXPECT_EQ(o.code, 4);
  EXPECT_TRUE(has(o, "one of the presets (")) << o.text;
}

// docs/cluster-files.md: its smallest file is one, and with its level of network it is one of several nodes; every key
// the examples use is in its table.
TEST_F(PlanVerb, ThePageOnClusterFilesIsTrue) {
  const std::string page = real_io().read(source_dir() + "/docs/cluster-files.md");
  std::string blocks[2];
  size_t at = 0;
  for (std::string& block : blocks) {
    at = page.find("```toml\n", at) + 8;
    block = page.substr(at, page.find("```", at) - at);
  }
  put("one.toml", blocks[0]);
  const std::string job = " --batch 8 --seq 512 --schedules 1f1b";
  const Outcome one = tern("plan gpt2 --hardware one.toml" + job);
  EXPECT_EQ(one.code, 0) << one.text;
  EXPECT_EQ(tern("plan gpt2 --hardware one.toml --nodes 2" + job).code, 2);
  put("more.toml", blocks[0] + blocks[1]);
  const Outcome more = tern("plan gpt2 --hardware more.toml --nodes 2" + job);
  EXPECT_EQ(more.code, 0) << more.text;
  // Each line of the smallest file is needed: without it there is a message that names the file.
  size_t begin = 0;
  for (size_t end; (end = blocks[0].find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string line = blocks[0].substr(begin, end - begin);
    if (line.empty()) continue;
    put("less.toml", blocks[0].substr(0, begin) + blocks[0].substr(end + 1));
    const Outcome less = tern("plan gpt2 --hardware less.toml" + job);
    EXPECT_EQ(less.code, 4) << line << "\n" << less.text;
    EXPECT_TRUE(has(less, "less.toml")) << less.text;
  }
  for (const char* example : {"h100-node.toml", "h100-16384.toml", "mixed-desk.toml"}) {
    const std::string text = real_io().read(kHardware + example);
    for (size_t line = 0; line < text.size(); line = text.find('\n', line) + 1) {
      const std::string key = text.substr(line, text.find_first_of(" =\n", line) - line);
      if (!key.empty() && std::isalpha(static_cast<unsigned char>(key[0]))) {
        EXPECT_NE(page.find(key), std::string::npos) << key;
      }
    }
  }
}

// Whatever program is called cbc: what it does is reported, and is no bug of ours.
TEST_F(PlanVerb, ASolverThatCrashesOrErrsIsReported) {
  const std::string plan = "plan gpt2" + kNode +
                           " --batch 8 --seq 512 --schedules 1f1b --max-tensor 1 --max-context 1 "
                           "--max-micro-batch 1 --max-stages 2 --certify";
  ASSERT_EQ(tern("version").code, 0);
  put("cbc", "#!/bin/sh\necho an assertion failed >&2\nkill -ABRT $$\n");
  ASSERT_EQ(::chmod(path("cbc").c_str(), 0755), 0);
  const Outcome crashed = tern(plan, "PATH=" + folder_ + ":$PATH");
  EXPECT_EQ(crashed.code, 0) << crashed.text;
  EXPECT_TRUE(has(crashed, "cbc crashed (signal 6); nothing was concluded")) << crashed.text;
  EXPECT_FALSE(has(crashed, "an assertion failed")) << crashed.text;
  put("cbc", "#!/bin/sh\nfor last; do :; done\necho 'Optimal - objective value 1' > \"$last\"\n");
  ASSERT_EQ(::chmod(path("cbc").c_str(), 0755), 0);
  const Outcome differs = tern(plan, "PATH=" + folder_ + ":$PATH");
  EXPECT_EQ(differs.code, 8) << differs.text;
  EXPECT_TRUE(has(differs, "cbc finds 1 ps")) << differs.text;
}

// The table that embedding and head share lies under ZeRO 3 with both or with neither.
TEST_F(PlanVerb, APlanForTernsOwnRanksIsOneThatTernTrainRuns) {
  put("two.toml", replace_all(std::string(kMachineOfTern), "devices = 1\n", "devices = 2\n"));
  const std::string plan =
      "plan " + source_dir() + "/examples/tiny/config.json --hardware two.toml --batch 16 --seq 64";
  const Outcome found = tern(plan + " --dtype f32 --offload none --fix dp=2 --zero 0,3 --output p.json");
  ASSERT_EQ(found.code, 0) << found.text;
  EXPECT_TRUE(has(found, "ZeRO 3 in some layers alone, which tern train does not run for this model")) << found.text;
  EXPECT_TRUE(has(found, "--plan p.json")) << found.text;
  EXPECT_FALSE(has(found, "does not run this plan")) << found.text;
}

}  // namespace
}  // namespace tern
