// tern adapt beside a base in codes: what it learns there, in which bytes, killed at any time, merged into offsets.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "base/clock.h"
#include "base/rng.h"
#include "tests/e2e/adapt_testing.h"
#include "tests/e2e/train_process.h"

namespace tern {
namespace {

// The adapter that LoftQ makes beside its codes brings them nearer to the model, and goes on from there.
TEST_F(Adapt, GoesOnFromTheAdapterBesideLoftqsCodes) {
  std::filesystem::create_directories(root_ + "/small");
  write("small/config.json",
        R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 4096, "hidden_size": 64,
 "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
 "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "tie_word_embeddings": true, "hidden_act": "silu"})");
  json("train small --from-scratch --tokenizer " + kNovels +
       " --data log.txt --output trained --seq 32 --batch 8 --steps 60 --learning-rate 5e-3");
  const std::string coding = "quantize trained/model --method loftq --table-type q8_0 ";
  const Json run = json(coding + "--type u2 --rank 4 --rounds 3 --output loftq");
  const auto errors = run["relative_error_of_rounds"].get<std::vector<double>>();
  ASSERT_EQ(errors.size(), 3u);
  EXPECT_LT(errors[1], errors[0]);
  EXPECT_LT(errors[2], errors[1]);
  EXPECT_GT(run["relative_error_of_codes"].get<double>(), errors[2]) << "of the same matrices, without the adapter";
  const std::string eval = " --data log.txt --dtype f32 --max-tokens 500";
  const double whole = loss_of("eval trained/model" + eval), codes = loss_of("eval loftq" + eval),
               beside = loss_of("eval loftq --adapter loftq/adapter" + eval);
  EXPECT_LT(beside - whole, 0.7 * (codes - whole));
  const std::string on = "adapt loftq --begin loftq/adapter --data log.txt --seq 32 --batch 4 --learning-rate 1e-3 ";
  EXPECT_EQ(json(on + "--steps 6 --output begun")["byte_mismatches"], 0);
  EXPECT_LT(loss_of("eval loftq --adapter begun/adapter" + eval), beside);
  json(on + "--steps 2 --schedule constant --warmup-steps 0 --output begun-parts");
  json(on + "--steps 4 --schedule constant --warmup-steps 0 --output begun-parts");
  json(on + "--steps 4 --schedule constant --warmup-steps 0 --output begun-whole");
  EXPECT_EQ(file("begun-parts/adapter/adapter_model.safetensors"),
            file("begun-whole/adapter/adapter_model.safetensors"));
  expect_refusal(2, on + "--rank 4 --output x", {"--rank", "--begin"});
  expect_refusal(2, on + "--method dora --output x", {"--method dora", "--begin"});
  expect_refusal(2, coding + "--output x.gguf", {"loftq"});
  expect_refusal(2, coding + "--type u2 --rank 200 --output x", {"--rank: 200"});
  std::filesystem::copy(root_ + "/loftq", root_ + "/other", std::filesystem::copy_options::recursive);
  tern("adapt other --begin loftq/adapter --data log.txt --seq 32 --dry-run 2>errors");
  EXPECT_NE(real_io().read(root_ + "/errors").find("was trained on 'loftq', the model is 'other'"), std::string::npos)
      << real_io().read(root_ + "/errors");
}

// Beside a base in codes: the adapter that the decoded base gives, to the bit, in the bytes foretold, for the same base.
TEST_F(Adapt, LearnsBesideCodesWhatItLearnsBesideTheirNumbers) {
  json("quantize " + kNovels + " --type q4_0 --table-type q4_0 --output q.gguf");
  json("export q.gguf --dtype f32 --output q-numbers");
  const auto on = [](const std::string& model, const std::string& output, const std::string& rest) {
    return "adapt " + model + " --data log.txt --output " + output +
           " --seq 32 --batch 4 --schedule constant --warmup-steps 0 --learning-rate 3e-3 --rank 4 " + rest;
  };
  const Json run = json(on("q.gguf", "coded", "--multiply exact --steps 6")),
             dense = json(on("q-numbers", "decoded", "--multiply exact --steps 6"));
  EXPECT_EQ(file("coded/adapter/adapter_model.safetensors"), file("decoded/adapter/adapter_model.safetensors"));
  EXPECT_LT(5 * run["predicted_bytes"]["weights"].get<int64_t>(), dense["predicted_bytes"]["weights"].get<int64_t>());
  json(on("q.gguf", "parts", "--multiply exact --steps 2"));
  json(on("q.gguf", "parts", "--multiply exact --steps 6"));
  EXPECT_EQ(file("parts/adapter/adapter_model.safetensors"), file("coded/adapter/adapter_model.safetensors"));
  const std::string eval = "eval q.gguf --data log.txt --dtype f32";
  const double after = loss_of(eval + " --adapter coded/adapter");
  EXPECT_LT(after, loss_of(eval) - 0.1);
  EXPECT_EQ(after, loss_of("eval q-numbers --data log.txt --dtype f32 --adapter coded/adapter"));
}

// QLoRA and its pooled kin: killed at moments drawn from a printed seed, they end as the run that nobody disturbed.
TEST_F(AdaptSlow, KilledBesideCodesItEndsWithTheSameBits) {
  constexpr uint64_t kSeed = 20261124;
  constexpr int kKills = 16;
  fmt::print("seed {}\n", kSeed);
  json("quantize " + kNovels + " --type u4 --output killed-base");
  const auto command = [](const std::string& method, const std::string& output) -> std::vector<std::string> {
    return {TERN_PROGRAM,
            "adapt",
            root_ + "/killed-base",
            "--data",
            root_ + "/log.txt",
            "--output",
            output,
            "--method",
            method,
            "--rank",
            "4",
            "--seq",
            "32",
            "--batch",
            "4",
            "--steps",
            "12",
            "--checkpoint-every",
            "1",
            "--schedule",
            "constant",
            "--warmup-steps",
            "0",
            "--learning-rate",
            "3e-3"};
  };
  Clock& clock = real_clock();
  uint64_t draw = 0;
  for (const std::string method : {"lora", "qablora"}) {
    SCOPED_TRACE(method);
    const std::string whole = root_ + "/killed-whole-" + method, parts = root_ + "/killed-parts-" + method;
    ASSERT_EQ(run_to_end(command(method, whole + "-first"), root_), 0);  // fills the caches
    const int64_t begin = clock.now_ns();
    ASSERT_EQ(run_to_end(command(method, whole), root_), 0);
    const double seconds = seconds_between(begin, clock.now_ns());
    const auto bits = [](const std::string& run) {
      return real_io().read(run + "/adapter/adapter_model.safetensors") +
             real_io().read(run + "/checkpoints/step-12/rank-0.safetensors");
    };
    const std::string want = bits(whole);
    ASSERT_EQ(bits(whole + "-first"), want) << "two undisturbed runs differ: nothing can be tested";
    int kills = 0, after_a_step = 0;
    while (kills < kKills) {
      Child child(command(method, parts), root_ + "/errors");
      const int64_t start = clock.now_ns();
      const double at_s = random_uniform({kSeed, 1}, draw++) * seconds;
      while (child.running() && seconds_between(start, clock.now_ns()) < at_s) clock.sleep_ns(200'000);
      child.signal(SIGKILL);
      const int status = child.wait();
      if (status == 128 + SIGKILL) {
        ++kills;
        if (const std::string at = parts + "/checkpoints"; real_io().stat(at))
          after_a_step += std::ranges::any_of(real_io().list(at),
                                              [](const std::string& name) { return name.starts_with("step-"); });
        continue;
      }
      ASSERT_EQ(status, 0) << file("errors");  // it was faster: its end must be the right one
      ASSERT_EQ(bits(parts), want) << "after " << kills << " kills";
      remove_all(real_io(), parts);
    }
    std::string errors;
    ASSERT_EQ(run_to_end(command(method, parts), root_, &errors), 0) << errors;
    EXPECT_EQ(bits(parts), want);
    EXPECT_GE(after_a_step, kKills / 2) << "killed too early to show anything";
  }
}

TEST_F(Adapt, TakesTheBytesForetoldBesideEveryKindOfCodes) {
  const char* settings[] = {"q8_0 --dtype f32 --multiply exact --recompute full",
                            "u4 --dtype bf16 --multiply fast --target q_proj,v_proj",
                            "u3 --dtype bf16 --multiply exact --method rslora",
                            "nf4 --dtype bf16 --multiply exact --method qblora --rank 16",
                            "nf4_1 --dtype bf16 --multiply fast --method irqlora --micro-batch 2",
                            "u2 --dtype f32 --multiply fast --valid-data log.txt --eval-every 1",
                            "q4_1 --dtype bf16 --multiply fast --recompute attention --micro-batch 2",
                            "q5_0 --dtype f32 --multiply fast --micro-batch 1"};
  for (const std::string given : settings) {
    const std::string type = given.substr(0, given.find(' ')), rest = given.substr(given.find(' '));
    const std::string base = type[0] == 'q' ? type + ".gguf" : type;
    SCOPED_TRACE(given);
    json("quantize " + kNovels + " --type " + type + " --output " + base);
    const Json run =
        json("adapt " + base + " --data log.txt --output of-" + type + " --seq 32 --batch 4 --steps 2" + rest);
    EXPECT_EQ(run["byte_mismatches"], 0);
    EXPECT_LE(run["counted_peak_bytes"].get<int64_t>(), run["predicted_bytes"]["tensors"].get<int64_t>());
  }
}

// QA-LoRA: what was learnt goes into the offsets of the codes, and nothing is lost; where it cannot, the reason is said.
TEST_F(Adapt, MergesIntoOffsetsAndLosesNothing) {
  write("few.txt", file("log.txt").substr(0, 1500));
  const std::pair<std::string, std::string> cases[] = {
      {"u4", "qalora"}, {"u3", "qablora"}, {"nf4_1", "qalora"}, {"q4_1", "qablora --pool 32"}};
  for (const auto& [type, method] : cases) {
    SCOPED_TRACE(type);
    const std::string base = "o-" + type + (type == "q4_1" ? ".gguf" : ""), run = "run-" + base;
    json("quantize " + kNovels + " --type " + type + " --output " + base);
    json("adapt " + base + " --data log.txt --output " + run + " --method " + method +
         " --rank 8 --seq 32 --batch 4 --steps 10 --schedule constant --warmup-steps 0 --learning-rate "
         "1e-2");
    const std::string into = "merged-" + base;
    const Json merged = json("adapt merge " + base + " " + run + "/adapter --offsets --output " + into);
    EXPECT_LT(merged["relative_error"].get<double>(), type == "q4_1" ? 0.1 : 1e-4);
    const std::string rest = " --data few.txt --dtype f32";
    const double before = loss_of("eval " + base + rest),
                 after = loss_of("eval " + base + rest + " --adapter " + run + "/adapter");
    EXPECT_LT(after, before - 0.1);
    EXPECT_NEAR(loss_of("eval " + into + rest), after, type == "q4_1" ? 5e-3 : 1e-5);
    if (type != "u4") continue;
    json("adapt " + base + " --data log.txt --output plain --seq 32 --batch 4 --steps 1");
    expect_refusal(2, "adapt merge " + base + " plain/adapter --offsets --output no", {"q_proj", "--method qalora"});
    json("quantize " + kNovels + " --type q4_0 --output zero.gguf");
    expect_refusal(2, "adapt merge zero.gguf " + run + "/adapter --offsets --output no.gguf",
                   {"Q4_0", "zero is a code"});
    expect_refusal(2, "adapt merge " + base + " " + run + "/adapter --offsets --dtype f32 --output no", {"--dtype"});
  }
}

}  // namespace
}  // namespace tern
