// tern adapt extract as a person uses it: what a merged model has beyond its base becomes the adapter again, whatever form
// the base has; what cannot be is refused by name.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/io.h"
#include "base/json.h"
#include "base/source_dir_testing.h"
#include "base/text.h"
#include "tests/e2e/in_folder_testing.h"
#include "tests/e2e/novels_testing.h"

namespace tern {
namespace {

class AdaptExtract : public InFolder<AdaptExtract> {
 protected:
  // An adapter of rank 4, and the model that it is merged into.
  static void SetUpTestSuite() {
    make_root("adapt-extract");
    std::string text;
    for (int i = 0; i < 120; ++i)
      text += "Log of the tern, day " + std::to_string(i) + ": wind north, sea calm, fuel " +
              std::to_string(900 - 7 * i) + " litres.\n";
    write("log.txt", text);
    json("adapt " + kNovels +
         " --data log.txt --output run --seq 32 --batch 4 --schedule constant --warmup-steps 0 --learning-rate 3e-3 "
         "--rank 4 --steps 8");
    json("adapt merge " + kNovels + " run/adapter --dtype f32 --output tuned");
  }
  static Json json(const std::string& rest) {
    const Outcome o = tern(rest + " --json 2>errors");
    EXPECT_EQ(o.code, 0) << rest << "\n" << errors();
    return o.code == 0 ? parse_json(o.text, "out") : Json::object();
  }
  static std::string errors() { return real_io().read(root_ + "/errors"); }
  // Nats per token.
  static double loss_of(const std::string& model) {
    return std::log(json("eval " + model + " --data log.txt --dtype f32 --max-tokens 500")["perplexity"].get<double>());
  }
  static std::string extract(const std::string& rest) { return "adapt extract " + kNovels + " tuned " + rest; }
};

TEST_F(AdaptExtract, GivesTheMergedAdapterBack) {
  const Json got = json(extract("--rank 4 --output again"));
  EXPECT_EQ(got["rank"], 4);
  EXPECT_GT(got["matrices"].get<int>(), 0);
  EXPECT_EQ(got["matrices"].get<size_t>(), got["kept_of_each"].size());
  EXPECT_EQ(got["same"], 0);
  EXPECT_GT(got["kept"].get<double>(), 0.9999);
  EXPECT_LE(got["kept"].get<double>(), 1);
  EXPECT_LE(got["kept_least"].get<double>(), got["kept"].get<double>() + 1e-12);
  EXPECT_TRUE(got["left_out"].empty()) << got["left_out"];
  EXPECT_EQ(errors().find("not in the adapter"), std::string::npos) << errors();
  const double tuned = loss_of("tuned");
  EXPECT_LT(tuned, loss_of(kNovels) - 0.05);
  EXPECT_NEAR(loss_of(kNovels + " --adapter again"), tuned, 1e-5);
  const Json inspected = json("inspect again");
  EXPECT_EQ(inspected["rank"], 4);
  EXPECT_EQ(inspected["finite"], true);
  const std::string order = " --prompt 'Log of' --max-tokens 8 --temperature 0 --dtype f32";
  EXPECT_EQ(json("generate " + kNovels + " --adapter again" + order)["text"], json("generate tuned" + order)["text"]);
}

TEST_F(AdaptExtract, ALowerRankKeepsLessAndSaysWhere) {
  const Json one = json(extract("--rank 1 --output one"));
  EXPECT_LT(one["kept"].get<double>(), 0.9999);
  EXPECT_GT(one["kept"].get<double>(), 0.1);
  EXPECT_EQ(one["kept_least"], one["kept_of_each"][one["kept_least_in"].get<std::string>()]);
  const Outcome told = tern(extract("--rank 2 --output two 2>errors"));
  EXPECT_EQ(told.code, 0) << errors();
  const std::string use = "tern generate " + kNovels + " --adapter two";
  for (const std::string& word :
       std::vector<std::string>{"adapted modules of rank 2", " % is kept", "the least in model.layers.", use})
    EXPECT_NE(told.text.find(word), std::string::npos) << told.text;
}

TEST_F(AdaptExtract, NamesWhatTheAdapterLeavesOut) {
  const Json few = json(extract("--rank 4 --target q_proj --output few"));
  EXPECT_EQ(few["left_out"].size() % few["matrices"].get<size_t>(), 0) << "the other matrices of as many layers";
  EXPECT_GT(few["left_out"].size(), 0);
  EXPECT_NE(errors().find("not in the adapter"), std::string::npos) << errors();
  EXPECT_NE(errors().find("k_proj.weight"), std::string::npos) << errors();
}

// Beside a base in codes the adapter holds what coding took, and tables differ that it cannot hold.
TEST_F(AdaptExtract, TakesABaseInCodes) {
  json("quantize " + kNovels + " --type q4_0 --output coded.gguf");
  const Json got = json("adapt extract coded.gguf tuned --rank 8 --output beside");
  EXPECT_GT(got["kept"].get<double>(), 0);
  EXPECT_LT(got["kept"].get<double>(), 1);
  EXPECT_NE(errors().find("embed_tokens"), std::string::npos) << errors();
  EXPECT_LT(loss_of("coded.gguf --adapter beside"), loss_of("coded.gguf"));
}

// Its adapter_config.json names kNovels: beside another model that is said, and nothing else changes.
TEST_F(AdaptExtract, SaysThatAnAdapterIsOfAnotherModel) {
  const std::string said = "run/adapter was trained on", order = " --adapter run/adapter --prompt x --max-tokens 1";
  json("generate tuned" + order);
  EXPECT_NE(errors().find(said), std::string::npos) << errors();
  EXPECT_NE(errors().find("the model is 'tuned'"), std::string::npos) << errors();
  json("adapt merge tuned run/adapter --dtype f32 --output twice");
  EXPECT_NE(errors().find(said), std::string::npos) << errors();
  json("generate " + kNovels + order);
  EXPECT_EQ(errors().find(said), std::string::npos) << errors();
  // The model was moved since.
  std::filesystem::copy(root_ + "/run/adapter", root_ + "/before");
  const std::string config = real_io().read(root_ + "/before/adapter_config.json");
  write("before/adapter_config.json", replace_all(config, kNovels, "/gone/novels-6m"));
  json("generate " + kNovels + " --adapter before --prompt x --max-tokens 1");
  EXPECT_EQ(errors().find("was trained on"), std::string::npos) << errors();
  json("generate tuned --adapter before --prompt x --max-tokens 1");
  EXPECT_NE(errors().find("was trained on '/gone/novels-6m'"), std::string::npos) << errors();
}

TEST_F(AdaptExtract, RefusesByName) {
  expect_refusal(4, "adapt extract " + kNovels + " " + kNovels + " --output no", {"differs", "two models"});
  expect_refusal(4, "adapt extract " + kNovels + " " + source_dir() + "/tests/golden/models/llama --output no",
                 {"has shape", "in the base"});
  expect_refusal(2, extract("--target nothing --output no"), {"--target nothing", "q_proj"});
  expect_refusal(2, extract(""), {"--output"});
  expect_refusal(2, extract("--output run"), {"run"});
  for (const auto& entry : std::filesystem::directory_iterator(root_))
    EXPECT_NE(entry.path().filename().string().substr(0, 2), "no") << entry.path();
}

}  // namespace
}  // namespace tern
