// tern adapt as a person uses it: an adapter is trained, resumed, used, merged; what cannot be is refused by name.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/io.h"
#include "base/json.h"
#include "base/rng.h"
#include "base/source_dir_testing.h"
#include "formats/safetensors/safetensors.h"
#include "tests/e2e/in_folder_testing.h"
#include "tests/e2e/novels_testing.h"
#include "tests/e2e/train_process.h"

namespace tern {
namespace {

class Adapt : public InFolder<Adapt> {
 protected:
  static void SetUpTestSuite() {
    make_root("adapt");
    std::string text;
    for (int i = 0; i < 120; ++i)
      text += "Log of the tern, day " + std::to_string(i) + ": wind north, sea calm, fuel " +
              std::to_string(900 - 7 * i) + " litres.\n";
    write("log.txt", text);
  }
  static Json json(const std::string& rest) {
    const Outcome o = tern(rest + " --json 2>errors");
    EXPECT_EQ(o.code, 0) << rest << "\n" << real_io().read(root_ + "/errors");
    return o.code == 0 ? parse_json(o.text, "out") : Json::object();
  }
  // Nats per token.
  static double loss_of(const std::string& eval) { return std::log(json(eval)["perplexity"].get<double>()); }
  static std::string train(const std::string& output, const std::string& rest) {
    return "adapt " + kNovels + " --data log.txt --output " + output +
           " --seq 32 --batch 4 --schedule constant --warmup-steps 0 --learning-rate 3e-3 " + rest;
  }
  static std::string file(const std::string& name) { return real_io().read(root_ + "/" + name); }
};
using AdaptSlow = Adapt;

TEST_F(Adapt, LearnsInTheBytesForetoldAndMergesToTheSameLosses) {
  const Json run = json(train("run", "--rank 4 --alpha 8 --steps 12"));
  EXPECT_EQ(run["byte_mismatches"], 0);
  const int64_t foretold = run["predicted_bytes"]["tensors"];
  EXPECT_LE(run["counted_peak_bytes"].get<int64_t>(), foretold);
  EXPECT_LT(8 * run["predicted_bytes"]["optimizer"].get<int64_t>(), run["predicted_bytes"]["weights"].get<int64_t>())
      << "of the adapter alone";
  EXPECT_TRUE(std::filesystem::exists(root_ + "/run/adapter/adapter_config.json"));
  const std::string eval = "eval " + kNovels + " --data log.txt --dtype f32";
  const double before = loss_of(eval), after = loss_of(eval + " --adapter run/adapter");
  EXPECT_LT(after, before - 0.3);
  const Json merged = json("adapt merge " + kNovels + " run/adapter --dtype f32 --output merged");
  EXPECT_LT(merged["relative_error"].get<double>(), 1e-4);
  EXPECT_NEAR(loss_of("eval merged --data log.txt --dtype f32"), after, 1e-5);
  EXPECT_EQ(json("generate " + kNovels +
                 " --adapter run/adapter --prompt 'Log of' --max-tokens 8 --temperature 0 --dtype f32")["text"],
            json("generate merged --prompt 'Log of' --max-tokens 8 --temperature 0")["text"]);
  const Json inspected = json("inspect run/adapter");
  EXPECT_EQ(inspected["rank"], 4);
  EXPECT_EQ(inspected["finite"], true);
  EXPECT_GT(inspected["numbers"], 0);
  EXPECT_NE(tern("inspect run/adapter").text.find("LoRA of rank 4, scale 8 / rank"), std::string::npos);
  expect_refusal(4, eval + " --adapter run", {"as run/adapter is"});
}

TEST_F(Adapt, AStoppedRunGoesOnToTheSameBits) {
  char letter = 'a';
  for (const char* more :
       {"", " --dtype bf16 --init gaussian --method rslora --target q_proj,v_proj",
        " --method dora --adapter-dropout 0.2", " --method dora --dtype bf16", " --init pissa --target v_proj",
        " --init olora --method rslora --dtype bf16 --target v_proj", " --init orthogonal",
        " --method irqlora --adapter-dropout 0.2 --dtype bf16",
        " --target v_proj --save-modules embed_tokens,lm_head,model.norm",
        " --target v_proj --dtype bf16 --save-modules embed_tokens,lm_head,model.norm"}) {
    const std::string name(1, letter++), rest = std::string("--rank 2") + more;
    json(train(name + "-whole", rest + " --steps 5"));
    json(train(name + "-parts", rest + " --steps 2"));
    json(train(name + "-parts", rest + " --steps 5"));
    EXPECT_EQ(file(name + "-parts/adapter/adapter_model.safetensors"),
              file(name + "-whole/adapter/adapter_model.safetensors"));
    EXPECT_EQ(file(name + "-parts/adapter/adapter_config.json"), file(name + "-whole/adapter/adapter_config.json"));
  }
  expect_refusal(2, train("a-parts", "--rank 3 --steps 6"), {"--rank", "2 in the checkpoint"});
}

// The table of tokens with the last norm, trained as a whole beside adapters.
TEST_F(Adapt, TrainsTheTableAndTheHeadInTheBytesForetold) {
  const std::string modules = " --save-modules embed_tokens,lm_head,model.norm ";
  const Json run = json(train("whole", "--rank 2 --steps 8" + modules)),
             plain = json(train("ranks", "--rank 2 --steps 8"));
  EXPECT_EQ(run["byte_mismatches"], 0);
  EXPECT_LE(run["counted_peak_bytes"].get<int64_t>(), run["predicted_bytes"]["tensors"].get<int64_t>());
  const auto states = [](const Json& r) { return r["predicted_bytes"]["optimizer"].get<int64_t>(); };
  EXPECT_GE(states(run) - states(plain), 2 * 4 * (4096 * 256 + 256));
  EXPECT_LE(states(run) - states(plain), 3 * 4 * (4096 * 256 + 256));
  EXPECT_EQ(parse_json(file("whole/adapter/adapter_config.json"), "config")["modules_to_save"].size(), 3u);
  const std::string eval = "eval " + kNovels + " --data log.txt --dtype f32";
  const double before = loss_of(eval), after = loss_of(eval + " --adapter whole/adapter");
  EXPECT_LT(after, before - 0.3);
  EXPECT_NE(after, loss_of(eval + " --adapter ranks/adapter"));
  json("adapt merge " + kNovels + " whole/adapter --dtype f32 --output whole-merged");
  EXPECT_NEAR(loss_of("eval whole-merged --data log.txt --dtype f32"), after, 1e-5);
  expect_refusal(2, train("x", "--save-modules embed_tokens"), {"--save-modules embed_tokens", "lm_head"});
  expect_refusal(2, train("x", "--init pissa" + modules), {"--save-modules", "--init pissa"});
  expect_refusal(2, "adapt " + kNovels + " --method dpo --data pairs.jsonl --output x" + modules, {"--method dpo"});
  expect_refusal(2, "adapt " + kNovels + " --data log.txt --output x --begin whole/adapter", {"whole"});
}

// DoRA and dropout: the bytes foretold, the same bits with recomputation, merged weights that give the adapter's losses, and beside
// codes what it learns beside their numbers.
TEST_F(Adapt, LearnsLengthsOfRowsAndLeavesInputsOut) {
  const std::string rest =
      "--method dora --rank 4 --steps 8 --adapter-dropout 0.1 --valid-data log.txt --eval-every 4 ";
  const Json run = json(train("dora", rest));
  EXPECT_EQ(run["byte_mismatches"], 0);
  EXPECT_LE(run["counted_peak_bytes"].get<int64_t>(), run["predicted_bytes"]["tensors"].get<int64_t>());
  json(train("dora-again", rest + "--recompute full"));
  EXPECT_EQ(file("dora/adapter/adapter_model.safetensors"), file("dora-again/adapter/adapter_model.safetensors"));
  json(train("dora-dry", "--method dora --rank 4 --steps 8"));
  EXPECT_NE(file("dora/adapter/adapter_model.safetensors"), file("dora-dry/adapter/adapter_model.safetensors"));
  const Json config = parse_json(file("dora/adapter/adapter_config.json"), "config");
  EXPECT_EQ(config["use_dora"], true);
  EXPECT_EQ(config["lora_dropout"], 0.1);
  const std::string eval = "eval " + kNovels + " --data log.txt --dtype f32 --max-tokens 500";
  const double after = loss_of(eval + " --adapter dora/adapter");
  EXPECT_LT(after, loss_of(eval) - 0.2);
  json("adapt merge " + kNovels + " dora/adapter --dtype f32 --output dora-merged");
  EXPECT_NEAR(loss_of("eval dora-merged --data log.txt --dtype f32 --max-tokens 500"), after, 1e-5);
  json("quantize " + kNovels + " --type q4_0 --table-type q4_0 --output dora.gguf");
  json("export dora.gguf --dtype f32 --output dora-numbers");
  const std::string beside = " --data log.txt --seq 32 --batch 4 --steps 3 --method dora --multiply exact --output ";
  EXPECT_EQ(json("adapt dora.gguf" + beside + "dora-coded")["byte_mismatches"], 0);
  json("adapt dora-numbers" + beside + "dora-decoded");
  EXPECT_EQ(file("dora-coded/adapter/adapter_model.safetensors"),
            file("dora-decoded/adapter/adapter_model.safetensors"));
  expect_refusal(2, "adapt merge dora.gguf dora-coded/adapter --offsets --output no.gguf", {"DoRA"});
  expect_refusal(2, train("x", "--adapter-dropout 1"), {"--adapter-dropout"});
}

// Its file serves the model as it lies, though it learned beside what was left of it.
TEST_F(Adapt, BeginsWithAPartOfTheWeights) {
  const std::string eval = "eval " + kNovels + " --data log.txt --dtype f32 --max-tokens 500";
  const double before = loss_of(eval);
  for (const std::string init : {"pissa", "olora"}) {
    const std::string begin = "--init " + init + " --rank 4 --target v_proj,o_proj ";
    json("adapt " + kNovels + " --data log.txt --seq 32 --batch 4 --schedule constant --warmup-steps 0 --steps 1 " +
         begin + "--learning-rate 1e-12 --output " + init + "-begun");
    EXPECT_NEAR(loss_of(eval + " --adapter " + init + "-begun/adapter"), before, 1e-4);
    const Json run = json(train(init, begin + "--steps 12"));
    EXPECT_EQ(run["byte_mismatches"], 0);
    EXPECT_EQ(parse_json(file(init + "/adapter/adapter_config.json"), "config")["r"], 8);
    const double after = loss_of(eval + " --adapter " + init + "/adapter");
    EXPECT_LT(after, before - 0.3);
    json("adapt merge " + kNovels + " " + init + "/adapter --dtype f32 --output " + init + "-merged");
    EXPECT_NEAR(loss_of("eval " + init + "-merged --data log.txt --dtype f32 --max-tokens 500"), after, 1e-5);
  }
  json("quantize " + kNovels + " --type q4_0 --table-type q4_0 --output begun.gguf");
  expect_refusal(2, "adapt begun.gguf --data log.txt --output x --init pissa --seq 32", {"--init pissa", "codes"});
  expect_refusal(2, train("x", "--init olora --method dora"), {"--init olora", "dora"});
  expect_refusal(2, train("x", "--init orthogonal --rank 3"), {"--rank: 3"});
  expect_refusal(2, train("x", "--init pissa --rank 300"), {"--rank: 300"});
}

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

TEST_F(Adapt, LearnsFromPairsOfAnswers) {
  const std::string pairs = source_dir() + "/tests/golden/dpo/pairs.jsonl";
  const auto on = [&](const std::string& output, const std::string& rest) {
    return "adapt " + kNovels + " --data " + pairs + " --output " + output +
           " --method dpo --seq 48 --batch 4 --rank 4 --schedule constant --warmup-steps 0 --learning-rate 1e-3 " +
           rest;
  };
  const Json run = json(on("dpo", "--steps 8 --eval-every 4 --valid-data " + pairs));
  EXPECT_EQ(run["byte_mismatches"], 0);
  EXPECT_LE(run["counted_peak_bytes"].get<int64_t>(), run["predicted_bytes"]["tensors"].get<int64_t>());
  EXPECT_LT(run["held_out"]["loss"].get<double>(), 0.6);
  EXPECT_GE(run["held_out"]["accuracy"].get<double>(), 0.9);
  json(on("dpo-parts", "--steps 1 --adapter-dropout 0.1"));
  json(on("dpo-parts", "--steps 3 --adapter-dropout 0.1"));
  json(on("dpo-whole", "--steps 3 --adapter-dropout 0.1"));
  EXPECT_EQ(file("dpo-parts/adapter/adapter_model.safetensors"), file("dpo-whole/adapter/adapter_model.safetensors"));
  expect_refusal(2, "adapt " + kNovels + " --data " + pairs + " --output x --method dpo --seq 48 --batch 5",
                 {"--batch: 5"});
  expect_refusal(2, on("x", "--micro-batch 2"), {"--micro-batch"});
  expect_refusal(2, on("x", "--init pissa"), {"--init pissa"});
  expect_refusal(2, train("x", "--dpo-beta 0.2"), {"--dpo-beta"});
  expect_refusal(4, train("x", "--method dpo"), {"log.txt", "no pair"});
  expect_refusal(4, "adapt " + kNovels + " --data " + pairs + " --output x --seq 48", {"pairs.jsonl: line 1", "dpo"});
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

// Q-BLoRA: as many numbers as LoRA of half the rank, in the bytes foretold; its files are ordinary LoRA, in use and merged.
TEST_F(Adapt, BalancesRankAgainstInputsAndOutputs) {
  const Json lora = json(train("of-lora", "--rank 4 --steps 1")),
             run = json(train("balanced", "--method qblora --rank 8 --alpha 16 --steps 12"));
  EXPECT_EQ(run["byte_mismatches"], 0);
  EXPECT_EQ(run["predicted_bytes"]["gradients"], lora["predicted_bytes"]["gradients"]);
  EXPECT_EQ(run["predicted_bytes"]["optimizer"], lora["predicted_bytes"]["optimizer"]);
  const Json config = parse_json(file("balanced/adapter/adapter_config.json"), "config");
  EXPECT_EQ(config["r"], 8);
  EXPECT_EQ(config["lora_alpha"], 16);
  const Safetensors files(root_ + "/balanced/adapter/adapter_model.safetensors");
  ASSERT_GT(files.size(), 0u);
  for (size_t i = 0; i < files.size(); ++i) {
    const auto& t = files[i];
    const bool is_a = t.name.find("lora_A") != std::string_view::npos;
    std::vector<float> x(t.bytes.size() / sizeof(float));
    std::memcpy(x.data(), t.bytes.data(), t.bytes.size());
    for (size_t k = 0; k < x.size(); ++k)
      ASSERT_EQ(x[k], is_a ? x[k / 2 * 2] : x[k / 8 / 2 * 16 + k % 8]) << t.name << " " << k;
  }
  const std::string eval = "eval " + kNovels + " --data log.txt --dtype f32";
  const double after = loss_of(eval + " --adapter balanced/adapter");
  EXPECT_LT(after, loss_of(eval) - 0.3);
  json("adapt merge " + kNovels + " balanced/adapter --dtype f32 --output balanced-merged");
  EXPECT_NEAR(loss_of("eval balanced-merged --data log.txt --dtype f32"), after, 1e-5);
  const std::string again = "--method qblora --rank 8 --alpha 16 --steps 13";
  expect_refusal(2, train("balanced", again + " --pool 4"), {"--pool: 2 in the checkpoint, 4 now"});
  expect_refusal(2, train("balanced", "--rank 8 --alpha 16 --steps 13"), {"--method: qblora in the checkpoint"});
  json(train("balanced", again));
  expect_refusal(2, train("no", "--pool 2"), {"--pool", "--method lora", "qblora"});
  expect_refusal(2, train("no", "--method qalora --repeat 2"), {"--repeat", "--method qalora", "qablora"});
  expect_refusal(2, train("no", "--method qblora --repeat 7"), {"--repeat 7", "outputs", "--target"});
  expect_refusal(2, train("no", "--method qablora --pool 7"), {"--pool 7", "inputs", "--target"});
  expect_refusal(2, train("no", "--method qablora --save-modules embed_tokens"), {"--save-modules", "qablora"});
}

// IR-QLoRA: LoRA with two numbers more for each matrix, in the bytes foretold; its files are ordinary LoRA, in use and merged.
TEST_F(Adapt, ConnectsElasticallyAndWritesOrdinaryAdapters) {
  json("quantize " + kNovels + " --type nf4_1 --output base");
  const std::string adapt =
      "adapt base --data log.txt --dtype f32 --seq 32 --batch 4 --rank 4 --schedule constant "
      "--warmup-steps 0 --learning-rate 3e-3 --output ";
  const Json lora = json(adapt + "of-lora --steps 1"), run = json(adapt + "elastic --method irqlora --steps 12");
  EXPECT_EQ(run["byte_mismatches"], 0);
  const Safetensors files(root_ + "/elastic/adapter/adapter_model.safetensors");
  const auto more = static_cast<int64_t>(files.size());  // A and B in the files, two shares in the run
  EXPECT_EQ(run["predicted_bytes"]["gradients"], lora["predicted_bytes"]["gradients"].get<int64_t>() + 4 * more);
  EXPECT_EQ(run["predicted_bytes"]["optimizer"], lora["predicted_bytes"]["optimizer"].get<int64_t>() + 8 * more);
  const std::string eval = "eval base --data log.txt --dtype f32";
  const double after = loss_of(eval + " --adapter elastic/adapter");
  EXPECT_LT(after, loss_of(eval) - 0.3);
  json("adapt merge base elastic/adapter --dtype f32 --output elastic-merged");
  EXPECT_NEAR(loss_of("eval elastic-merged --data log.txt --dtype f32"), after, 1e-5);
  expect_refusal(2, adapt + "elastic --steps 13", {"--method: irqlora in the checkpoint"});
  expect_refusal(2, adapt + "no --method irqlora --pool 2", {"--pool", "--method irqlora", "qblora"});
  expect_refusal(2, adapt + "no --method irqlora --init pissa", {"--init pissa", "irqlora"});
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

// LoRA+: at the first step B's gradient does not know of the ratio, A's is zero, and plain descent is linear in the rate.
TEST_F(Adapt, BLearnsAtItsOwnRate) {
  const std::string once = "--rank 2 --steps 1 --optimizer sgd --momentum 0 --weight-decay 0";
  json(train("rate-1", once));
  json(train("rate-8", once + " --lora-plus-ratio 8"));
  const Safetensors one(root_ + "/rate-1/adapter/adapter_model.safetensors"),
      eight(root_ + "/rate-8/adapter/adapter_model.safetensors");
  ASSERT_GT(one.size(), 0u);
  double largest = 0;
  for (size_t i = 0; i < one.size(); ++i) {
    const double factor = one[i].name.find("lora_B") == std::string_view::npos ? 1 : 8;
    std::vector<float> x(one[i].bytes.size() / sizeof(float)), y(x.size());
    std::memcpy(x.data(), one[i].bytes.data(), one[i].bytes.size());
    std::memcpy(y.data(), eight[i].bytes.data(), eight[i].bytes.size());
    for (size_t k = 0; k < x.size(); ++k) {
      ASSERT_EQ(factor * static_cast<double>(x[k]), static_cast<double>(y[k])) << one[i].name;
      if (factor > 1) largest = std::max(largest, std::abs(static_cast<double>(x[k])));
    }
  }
  EXPECT_GT(largest, 0) << "nothing was learned";
  expect_refusal(2, train("rate-8", once), {"lora-plus-ratio"});
  expect_refusal(2, train("x", "--lora-plus-ratio 0"), {"--lora-plus-ratio"});
}

// The sum of two adapters by factors beside each other, by singular values, and as merged weights.
TEST_F(Adapt, CombinesAdaptersToOne) {
  json(train("first", "--rank 2 --steps 4"));
  json(train("second", "--rank 3 --steps 4 --seed 2 --target q_proj,down_proj"));
  const std::string both = "adapt combine --adapter first/adapter --adapter second/adapter ";
  const Json cat = json(both + "--shares 0.75,0.5 --output cat");
  EXPECT_EQ(cat["rank"], 5);
  EXPECT_LE(cat["norm"].get<double>(), cat["norms"][0].get<double>() + cat["norms"][1].get<double>());
  json(both + "--shares 0.75,0.5 --method svd --rank 5 --output svd");
  const std::string eval = "eval " + kNovels + " --data log.txt --dtype f32 --max-tokens 500";
  const double sum = loss_of(eval + " --adapter cat");
  EXPECT_LT(sum, loss_of(eval) - 0.1);
  EXPECT_NEAR(loss_of(eval + " --adapter svd"), sum, 1e-5);
  json("adapt merge " + kNovels + " cat --dtype f32 --output cat-merged");
  EXPECT_NEAR(loss_of("eval cat-merged --data log.txt --dtype f32 --max-tokens 500"), sum, 1e-5);
  for (const std::string method : {"ties_svd --density 0.5", "dare_linear_svd --density 0.5 --seed 3", "opcm"}) {
    const std::string out = method.substr(0, method.find(' '));
    json(both + "--method " + method + " --output " + out);
    EXPECT_LT(loss_of(eval + " --adapter " + out), loss_of(eval)) << method;
  }
  expect_refusal(2, both + "--method ties --density 0.5 --output no", {"rank 2", "3", "svd"});
  expect_refusal(2, both + "--method ties --output no", {"--density"});
  expect_refusal(2, both + "--density 0.5 --output no", {"--density", "cat"});
  expect_refusal(2, both + "--shares 1 --output no", {"--shares", "2 adapters"});
  expect_refusal(2, both + "--output cat", {"cat"});
  expect_refusal(2, "adapt combine first/adapter second/adapter --output no", {"first/adapter", "--adapter a/adapter"});
  expect_refusal(4, "adapt combine --adapter nowhere --output no", {"nowhere"});
}

// Modules that an adapter changes as a whole: merged they are a model's, with a head of its own where it was the table.
TEST_F(Adapt, MergesModulesThatAnAdapterChangesAsAWhole) {
  const std::string golden = source_dir() + "/tests/golden/", gpt2 = golden + "models/gpt2";
  json("adapt merge " + gpt2 + " " + golden + "adapters/tables_tied --output untied");
  EXPECT_EQ(parse_json(file("untied/config.json"), "config.json")["tie_word_embeddings"], false);
  const Safetensors merged(root_ + "/untied/model.safetensors"), was(gpt2 + "/model.safetensors");
  const auto same = [](const TensorView& a, const TensorView& b) { return std::ranges::equal(a.bytes, b.bytes); };
  EXPECT_TRUE(same(merged.get("lm_head.weight"), was.get("transformer.wte.weight")));
  EXPECT_FALSE(same(merged.get("transformer.wte.weight"), was.get("transformer.wte.weight")));
  const std::string llama = golden + "models/llama", saved = golden + "adapters/saved";
  json("adapt merge " + llama + " " + saved + " --output whole");
  const Safetensors whole(root_ + "/whole/model.safetensors"), adapter(saved + "/adapter_model.safetensors");
  EXPECT_TRUE(same(whole.get("lm_head.weight"), adapter.get("base_model.model.lm_head.weight")));
  expect_refusal(2, "adapt merge " + llama + " " + saved + " --offsets --output no", {"embed_tokens", "--offsets"});
  expect_refusal(4, "adapt combine --adapter " + saved + " --adapter " + saved + " --output no", {"modules_to_save"});
  expect_refusal(2, "adapt " + llama + " --begin " + saved + " --data log.txt --seq 8 --output no", {"embed_tokens"});
}

TEST_F(Adapt, RefusesByName) {
  expect_refusal(2, train("x", "--target q_proj,nothing"), {"--target nothing", "q_proj"});
  expect_refusal(2, train("x", "--target 'q_proj, nothing'"), {"--target nothing", "q_proj"});
  expect_refusal(2, train("x", "--target all-linear,q_proj"), {"--target"});
  expect_refusal(4, "generate " + kNovels + " --prompt x --adapter nowhere", {"nowhere", "adapter_config.json"});
  expect_refusal(2, "adapt merge " + kNovels + " run/adapter", {"--output"});
}

}  // namespace
}  // namespace tern
