// tern plan for this very engine: its bytes are those that tern train and tern generate count; and how it serves and
// refuses.
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <cstdlib>
#include <regex>

#include "base/system.h"
#include "tests/e2e/in_folder_testing.h"

#include <nlohmann/json.hpp>

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
constexpr std::string_view kConfig =
    R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 512,
 "hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
 "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "tie_word_embeddings": true, "hidden_act": "silu"})";

constexpr std::string_view kExperts =
    R"({"model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "vocab_size": 512, "hidden_size": 64,
 "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
 "num_local_experts": 4, "num_experts_per_tok": 2, "max_position_embeddings": 512, "rms_norm_eps": 1e-5,
 "sliding_window": null, "tie_word_embeddings": false, "hidden_act": "silu"})";

class PlanHere : public InFolder<PlanHere> {
 protected:
  static void SetUpTestSuite() {
    make_root("plan-here");
    std::string text;
    for (int i = 0; i < 1500; ++i) text += "it was line " + std::to_string(i) + ", and the next one is not far.\n";
    write("text.txt", text);
    write("here.toml", kMachine);
    make_dirs(real_io(), root_ + "/model");
    write("model/config.json", kConfig);
    make_dirs(real_io(), root_ + "/experts");
    write("experts/config.json", kExperts);
    ASSERT_EQ(tern("tokenize --train --vocab-size 300 --input text.txt --output tokenizer 2>&1").code, 0);
  }
};

int64_t bytes_after(const std::string& text, const std::string& what) {
  std::smatch found;
  if (!std::regex_search(text, found, std::regex(what + R"( .*? ([\d,]+) bytes)"))) return -1;
  std::string digits = found[1];
  std::erase(digits, ',');
  return std::stoll(digits);
}

// The plan's command is given to the trainer as it stands; what it counts is what the plan said, to the byte.
TEST_F(PlanHere, TheTrainersBytesAreThePlans) {
  for (const std::string dtype : {"f32", "bf16"}) {
    const bool in_file = dtype == "bf16";  // else its command has the plan's choices as options
    const Outcome plan = tern("plan model --hardware here.toml --batch 8 --seq 64 --dtype " + dtype +
                              (in_file ? " --output 'the plan.json'" : "") + " 2>&1");
    ASSERT_EQ(plan.code, 0) << plan.text;
    std::smatch printed;
    ASSERT_TRUE(std::regex_search(plan.text, printed, std::regex("tern (train model .*)"))) << plan.text;
    std::string command = printed[1];
    EXPECT_EQ(command.find("--plan 'the plan.json'") != std::string::npos, in_file) << command;
    for (const auto& [word, value] : {std::pair{"DATA", "text.txt"}, {"RUN", "run"}, {"TOKENIZER", "tokenizer"}})
      command = std::regex_replace(command, std::regex(std::string("\\b") + word + "\\b"), value);
    const int64_t tensors = bytes_after(plan.text, "tensors at their most");
    const int64_t saving = bytes_after(plan.text, "with checkpoints");
    for (const std::string every : {"0", "1"}) {
      const Outcome trained =
          tern(command + " --steps 2 --warmup-steps 1 --resume never --json --checkpoint-every " + every + " 2>errors");
      ASSERT_EQ(trained.code, 0) << real_io().read(root_ + "/errors");
      EXPECT_EQ(parse_json(trained.text, "train")["counted_peak_bytes"], every == "0" ? tensors : saving) << dtype;
    }
  }
}

TEST_F(PlanHere, OfSeveralRanksTheTrainersBytesAreThePlansToo) {
  std::string ranks(kMachine);
  const std::string one = "devices = 1";
  ranks.replace(ranks.find(one), one.size(), "devices = 4");
  write("ranks.toml", ranks);
  for (const std::string fix :
       {"dp=2,pp=1,tp=1,cp=1,zero=0", "dp=4,pp=1,tp=1,cp=1,zero=3", "dp=1,pp=2,tp=1,cp=1,zero=0",
        "dp=2,pp=2,tp=1,cp=1,zero=1", "dp=1,pp=1,tp=2,cp=1,zero=0"}) {
    SCOPED_TRACE(fix);
    const Outcome plan =
        tern("plan model --hardware ranks.toml --batch 8 --seq 64 --dtype f32 --schedules 1f1b --fix " + fix +
             ",micro-batch=2 --output ranks.json 2>&1");
    ASSERT_EQ(plan.code, 0) << plan.text;
    const Outcome trained = tern(
        "train model --from-scratch --tokenizer tokenizer --data text.txt --output run-4 --plan ranks.json "
        "--steps 2 --warmup-steps 1 --resume never --json --checkpoint-every 0 2>errors");
    ASSERT_EQ(trained.code, 0) << real_io().read(root_ + "/errors");
    EXPECT_EQ(parse_json(trained.text, "train")["counted_peak_bytes"], bytes_after(plan.text, "tensors at their most"))
        << plan.text;
  }
}

// The file that `tern plan` writes is what `tern train --plan` runs: one list by its checksum, as long as the search says,
// with the bytes that were predicted.
TEST_F(PlanHere, TheWrittenPlanIsTheProgramThatRuns) {
  const auto trained = [&](const std::string& model, const std::string& more) {
    const Outcome done =
        tern("train " + model + " --from-scratch --tokenizer tokenizer --data text.txt --output run-3 " +
             "--plan plan.json --steps 3 --warmup-steps 1 --resume never --json" + more + " 2>errors");
    EXPECT_EQ(done.code, 0) << real_io().read(root_ + "/errors");
    return parse_json(done.text, "train");
  };
  const std::string errors = root_ + "/errors";
  for (const auto& [model, more] : {std::pair<std::string, std::string>{"model", "--dtype f32"},
                                    {"model", "--dtype bf16 --fix recompute=full"},
                                    {"model", "--dtype bf16 --optimizer sgd --max-micro-batch 2"},
                                    {"experts", "--dtype bf16 --fix recompute=attention,micro-batch=4"},
                                    {"experts", "--dtype f32 --fix micro-batch=4"}}) {
    SCOPED_TRACE(model + " " + more);
    const std::string asked = "plan " + model + " --hardware here.toml --batch 8 --seq 64 " + more;
    ASSERT_EQ(tern(asked + " --output plan.json 2>&1").code, 0);
    const Json planned = parse_json(real_io().read(root_ + "/plan.json"), "plan.json")["predicted"];
    EXPECT_EQ(planned["program"]["step_ps"], planned["step_ps"]);
    const Json run = trained(model, "");
    EXPECT_EQ(run["program"]["checksum"], planned["program"]["checksum"]);
    EXPECT_EQ(run["program"]["planned_checksum"], planned["program"]["checksum"]);
    EXPECT_EQ(run["byte_mismatches"], 0);
    EXPECT_EQ(run["counted_peak_bytes"], run["predicted_bytes"]["tensors"]);
    EXPECT_EQ(real_io().read(errors).find("was priced as"), std::string::npos) << real_io().read(errors);
    EXPECT_EQ(tern(asked + " --check plan.json 2>&1").code, 0);
  }
  const Json other =
      trained("experts", " --multiply exact");  // another list: oneDNN's workspaces are other ones in f32
  EXPECT_NE(other["program"]["checksum"], other["program"]["planned_checksum"]);
  EXPECT_NE(real_io().read(errors).find("the plan was priced as the Program"), std::string::npos)
      << real_io().read(errors);
}

TEST_F(PlanHere, TheGeneratorsBytesAreThePlans) {
  ASSERT_EQ(
      tern("train model/config.json --from-scratch --tokenizer tokenizer --data text.txt --output run-2 --steps 1 "
           "--warmup-steps 1 --batch 2 --seq 32 2>&1")
          .code,
      0);
  for (const std::string dtype : {"f32", "bf16", "f32 --kv-dtype q8", "bf16 --kv-dtype q4"}) {
    const Json written =
        parse_json(tern("generate run-2/model --prompt 'it was' --max-tokens 40 --ignore-eos --json --dtype " + dtype +
                        " 2>/dev/null")
                       .text,
                   "generate");
    const Json plan = parse_json(tern("plan run-2/model --inference --hardware here.toml --prompt-tokens " +
                                      std::to_string(written["prompt_tokens"].get<int64_t>()) +
                                      " --max-tokens 40 --users 1 --json --dtype " + dtype + " 2>/dev/null")
                                     .text,
                                 "plan");
    EXPECT_EQ(plan["engine"]["predicted_bytes"], written["memory"]["predicted_bytes"]);
    EXPECT_EQ(plan["engine"]["kv_cache"], plan["decode"]["bytes"]["kv"]);
    EXPECT_EQ(plan["engine"]["activations"], plan["decode"]["bytes"]["activations"]);
    EXPECT_EQ(plan["engine"]["logits"], plan["decode"]["bytes"]["logits"]);
    EXPECT_GT(plan["ttft_s"].get<double>(), 0);
  }
}

std::string machine_with_disk() {
  std::string text(kMachine);
  const std::string before = "host_link = ";
  return text.insert(text.find(before), "disk = \"100GB\"\ndisk_read = \"2GB/s\"\ndisk_write = \"1GB/s\"\n");
}

// What tern generate says and counts of keys and values on the disk is what was planned.
TEST_F(PlanHere, TheGeneratorsBytesOnTheDiskAreThePlans) {
  if (read_disk_facts("/var/tmp").file_system == "tmpfs") GTEST_SKIP() << "/var/tmp lies in memory";
  write("disk.toml", machine_with_disk());
  ASSERT_EQ(
      tern("train model/config.json --from-scratch --tokenizer tokenizer --data text.txt --output run-5 --steps 1 "
           "--warmup-steps 1 --batch 2 --seq 32 2>&1")
          .code,
      0);
  for (const std::string dtype : {"f32", "bf16 --kv-dtype q8"}) {
    const Json written = parse_json(tern("generate run-5/model --prompt 'it was' --max-tokens 40 --ignore-eos --json "
                                         "--kv-place disk --kv-dir /var/tmp --dtype " +
                                         dtype + " 2>errors")
                                        .text,
                                    "generate");
    const std::string said = real_io().read(root_ + "/errors");
    const std::string plan = "plan run-5/model --inference --hardware disk.toml --prompt-tokens " +
                             std::to_string(written["prompt_tokens"].get<int64_t>()) +
                             " --max-tokens 40 --users 1 --kv-place disk --dtype " + dtype;
    const Json planned = parse_json(tern(plan + " --json 2>/dev/null").text, "plan");
    EXPECT_EQ(planned["engine"]["predicted_bytes"], written["memory"]["predicted_bytes"]);
    EXPECT_EQ(planned["keys_on_disk"]["layers"], written["kv_on_disk"]["layers"]);
    EXPECT_EQ(planned["keys_on_disk"]["file_bytes"], written["kv_on_disk"]["file_bytes"]);
    const Outcome words = tern(plan + " 2>&1");
    std::smatch step;
    ASSERT_TRUE(std::regex_search(
        said, step,
        std::regex("a step of 1 sequence with [0-9]+ tokens each reads .* of them and writes [0-9.]+ [KM]?i?B")))
        << said;
    EXPECT_NE(words.text.find(step[0]), std::string::npos) << step[0] << "\n" << words.text;
    EXPECT_NE(words.text.find("would hold everything"), std::string::npos) << words.text;
  }
}

TEST_F(PlanHere, KeysThatMemoryDoesNotHoldGoToADiskWhoseRatesAreKnown) {
  write("disk.toml", machine_with_disk());
  const std::string few = "plan model --inference --dtype bf16 --users 4 --hardware ";
  const Outcome fits = tern(few + "disk.toml 2>&1");
  EXPECT_EQ(fits.code, 0) << fits.text;
  EXPECT_EQ(fits.text, tern(few + "disk.toml --kv-place memory 2>&1").text) << "memory suffices";
  EXPECT_EQ(fits.text.find("GB/s read"), std::string::npos) << fits.text;
  const std::string many = "plan model --inference --dtype bf16 --users 2000 --hardware ";
  const Outcome words = tern(many + "disk.toml 2>&1");
  EXPECT_EQ(words.code, 0) << words.text;
  for (const char* part : {"of 3 of 3 layers lie on the disk (layers 0-2)", "GB/s read", "more would hold everything",
                           "--batch 2000 --kv-place disk", "not weighed"})
    EXPECT_NE(words.text.find(part), std::string::npos) << part << "\n" << words.text;
  const Json keys = parse_json(tern(many + "disk.toml --json 2>/dev/null").text, "plan")["keys_on_disk"];
  EXPECT_EQ(keys["layers"], 3);
  // Heads of 32 numbers in bf16: 2 of keys and 2 of values in 3 layers, 136 pages of 16 tokens for each user.
  EXPECT_EQ(keys["step_read_bytes"], int64_t{2000} * 136 * 16 * 3 * 4 * 64);
  EXPECT_GT(keys["missing_memory_bytes"].get<int64_t>(), 0);
  expect_refusal(3, many + "here.toml", {"lacks", "Nor with keys and values on the disk", "disk_read", "tern profile"});
  expect_refusal(3, many + "disk.toml --kv-place memory", {"lacks"});
  const Json refused = parse_json(tern(many + "here.toml --json 2>/dev/null").text, "plan");
  EXPECT_EQ(refused["fits"], false);
  EXPECT_NE(refused["keys_on_disk"].get<std::string>().find("disk_read"), std::string::npos);
  expect_refusal(2, few + "here.toml --kv-place disk", {"--kv-place disk", "disk_read"});
  expect_refusal(2, "plan gpt2 --inference --hardware h100 --kv-place disk", {"--kv-place", "--offload"});
  expect_refusal(2, "plan model --hardware here.toml --batch 4 --seq 64 --kv-place disk",
                 {"--kv-place is of --inference"});
}

TEST_F(PlanHere, ServingIsToldInWordsAndNumbers) {
  const std::string plan = "plan llama-3-8b --inference --hardware h100 --prompt-tokens 2000 --max-tokens 200";
  const Outcome words = tern(plan + " --ttft 1s --tpot 20ms --kv-dtype q8 2>&1");
  EXPECT_EQ(words.code, 0);
  for (const char* word :
       {"keys and values in q8", "(target 1.0 s)", "(target 20 ms)", "memory per", "room for", "limited by"})
    EXPECT_NE(words.text.find(word), std::string::npos) << word << "\n" << words.text;
  const Json json = parse_json(tern(plan + " --users 4 --json 2>/dev/null").text, "plan");
  EXPECT_EQ(json["users"], 4);
  EXPECT_EQ(json["asked"]["kv_dtype"], "bf16");
  EXPECT_NEAR(json["tokens_per_s"].get<double>() * json["tpot_s"].get<double>(), 4, 1e-9);
}

TEST_F(PlanHere, WhatDoesNotFitOrIsTooSlowIsRefusedWithWhatWould) {
  const std::string big = "plan llama-3-70b --inference --hardware rtx4090 --users 2 --prompt-tokens 4000";
  expect_refusal(3, big + " --offload none", {"lacks", "device memory", "What would do", "--offload all"});
  const Json json = parse_json(tern(big + " --offload none --json 2>/dev/null").text, "plan");
  EXPECT_EQ(json["fits"], false);
  EXPECT_EQ(json["tier"], "device");
  EXPECT_GT(json["missing_bytes"].get<int64_t>(), 1'000'000'000);
  EXPECT_FALSE(json["what_would_do"].empty());
  expect_refusal(3, "plan llama-3-8b --inference --hardware rtx4090 --tpot 1ms", {"too slow", "(--tpot 1 ms)"});
  expect_refusal(2, "plan model --inference --hardware here.toml --dtype bf16 --kv-dtype f32", {"--kv-dtype f32"});
  expect_refusal(2, "plan model --inference --hardware here.toml --weight-dtype q8", {"--weight-dtype", "this engine"});
  expect_refusal(2, "plan model --inference --hardware here.toml --batch 4", {"--batch", "--users"});
  expect_refusal(2, "plan model --hardware here.toml --batch 4 --seq 64 --users 3", {"--users is of --inference"});
  expect_refusal(2, "plan model --inference", {"--hardware must be given"});
}

}  // namespace
}  // namespace tern
