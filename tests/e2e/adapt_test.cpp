// tern adapt as a person uses it: an adapter is trained, resumed, used, merged; what cannot be is refused by name.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/io.h"
#include "base/json.h"
#include "tests/e2e/in_folder_testing.h"

namespace tern {
namespace {

const std::string kModel = TERN_SOURCE_DIR "/examples/novels-6m";

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
    return "adapt " + kModel + " --data log.txt --output " + output +
           " --seq 32 --batch 4 --schedule constant --warmup-steps 0 --learning-rate 3e-3 " + rest;
  }
  static std::string file(const std::string& name) { return real_io().read(root_ + "/" + name); }
};

TEST_F(Adapt, LearnsInTheBytesForetoldAndMergesToTheSameLosses) {
  const Json run = json(train("run", "--rank 4 --alpha 8 --steps 12"));
  EXPECT_EQ(run["byte_mismatches"], 0);
  const int64_t foretold = run["predicted_bytes"]["tensors"];
  EXPECT_LE(run["counted_peak_bytes"].get<int64_t>(), foretold);
  EXPECT_LT(8 * run["predicted_bytes"]["optimizer"].get<int64_t>(), run["predicted_bytes"]["weights"].get<int64_t>())
      << "of the adapter alone";
  EXPECT_TRUE(std::filesystem::exists(root_ + "/run/adapter/adapter_config.json"));
  const std::string eval = "eval " + kModel + " --data log.txt --dtype f32";
  const double before = loss_of(eval), after = loss_of(eval + " --adapter run/adapter");
  EXPECT_LT(after, before - 0.3);
  const Json merged = json("adapt merge " + kModel + " run/adapter --dtype f32 --output merged");
  EXPECT_LT(merged["relative_error"].get<double>(), 1e-4);
  EXPECT_NEAR(loss_of("eval merged --data log.txt --dtype f32"), after, 1e-5);
  EXPECT_EQ(json("generate " + kModel +
                 " --adapter run/adapter --prompt 'Log of' --max-tokens 8 --temperature 0 --dtype f32")["text"],
            json("generate merged --prompt 'Log of' --max-tokens 8 --temperature 0")["text"]);
}

TEST_F(Adapt, AStoppedRunGoesOnToTheSameBits) {
  for (const char* more : {"", " --dtype bf16 --init gaussian --method rslora --target q_proj,v_proj"}) {
    const std::string name = *more ? "b" : "a", rest = std::string("--rank 2") + more;
    json(train(name + "-whole", rest + " --steps 5"));
    json(train(name + "-parts", rest + " --steps 2"));
    json(train(name + "-parts", rest + " --steps 5"));
    EXPECT_EQ(file(name + "-parts/adapter/adapter_model.safetensors"),
              file(name + "-whole/adapter/adapter_model.safetensors"));
    EXPECT_EQ(file(name + "-parts/adapter/adapter_config.json"), file(name + "-whole/adapter/adapter_config.json"));
  }
  expect_refusal(2, train("a-parts", "--rank 3 --steps 6"), {"--rank", "2 in the checkpoint"});
}

// Beside a base in codes: the adapter that the decoded base gives, to the bit, in the bytes foretold, for the same base.
TEST_F(Adapt, LearnsBesideCodesWhatItLearnsBesideTheirNumbers) {
  json("quantize " + kModel + " --type q4_0 --table-type q4_0 --output q.gguf");
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

TEST_F(Adapt, TakesTheBytesForetoldBesideEveryKindOfCodes) {
  const char* settings[] = {"q8_0 --dtype f32 --multiply exact --recompute full",
                            "u4 --dtype bf16 --multiply fast --target q_proj,v_proj",
                            "u3 --dtype bf16 --multiply exact --method rslora",
                            "u2 --dtype f32 --multiply fast --valid-data log.txt --eval-every 1",
                            "q4_1 --dtype bf16 --multiply fast --recompute attention --micro-batch 2",
                            "q5_0 --dtype f32 --multiply fast --micro-batch 1"};
  for (const std::string given : settings) {
    const std::string type = given.substr(0, given.find(' ')), rest = given.substr(given.find(' '));
    const std::string base = type[0] == 'q' ? type + ".gguf" : type;
    SCOPED_TRACE(given);
    json("quantize " + kModel + " --type " + type + " --output " + base);
    const Json run =
        json("adapt " + base + " --data log.txt --output of-" + type + " --seq 32 --batch 4 --steps 2" + rest);
    EXPECT_EQ(run["byte_mismatches"], 0);
    EXPECT_LE(run["counted_peak_bytes"].get<int64_t>(), run["predicted_bytes"]["tensors"].get<int64_t>());
  }
}

TEST_F(Adapt, RefusesByName) {
  expect_refusal(2, train("x", "--target q_proj,nothing"), {"--target nothing", "q_proj"});
  expect_refusal(2, train("x", "--target all-linear,q_proj"), {"--target"});
  expect_refusal(4, "generate " + kModel + " --prompt x --adapter nowhere", {"nowhere", "adapter_config.json"});
  expect_refusal(2, "adapt merge " + kModel + " run/adapter", {"--output"});
}

}  // namespace
}  // namespace tern
