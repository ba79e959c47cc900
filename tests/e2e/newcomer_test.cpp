// A newcomer's afternoon: the example, its tokenizer and its model, and what the program says to plausible mistakes.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/io.h"
#include "base/json.h"
#include "base/rng.h"
#include "tests/run_shell.h"

namespace tern {
namespace {

// A folder with text.txt, tokenizer/ and run/: the example of the README, six steps of it.
class Newcomer : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    std::string pattern = testing::TempDir() + "tern-newcomer-XXXXXX";
    root_ = ::mkdtemp(pattern.data());
    std::string text;
    const std::array<const char*, 8> words = {"it", "was", "a", "bright", "cold", "day", "in", "April"};
    for (uint64_t i = 0; i < 6000; ++i)
      text += std::string(words[random_u64({5, 5}, i) % words.size()]) + (i % 11 == 10 ? ".\n" : " ");
    write_file_atomically(real_io(), root_ + "/text.txt", text);
    ASSERT_EQ(tern("tokenize --train --vocab-size 300 --input text.txt --output tokenizer 2>&1").code, 0);
    const Outcome trained = tern("train " TERN_SOURCE_DIR
                                 "/examples/tiny/recipe.toml --data text.txt --tokenizer tokenizer --steps 6 "
                                 "--warmup-steps 2 --output run --json 2>errors");
    ASSERT_EQ(trained.code, 0) << real_io().read(root_ + "/errors");
    trained_ = trained.text;
  }
  static void TearDownTestSuite() { remove_all(real_io(), root_); }

  // In the folder, by the shell; `rest` may redirect.
  static Outcome tern(const std::string& rest) {
    return run_shell("cd " + root_ + " && env -u TERN_DATA XDG_CACHE_HOME=" + root_ + "/cache " TERN_PROGRAM " " +
                     rest);
  }

  static void expect_refusal(int code, const std::string& command, const std::vector<std::string>& words) {
    const Outcome outcome = tern(command + " 2>&1 >/dev/null");
    EXPECT_EQ(outcome.code, code) << command << "\n" << outcome.text;
    for (const std::string& word : words) EXPECT_NE(outcome.text.find(word), std::string::npos) << outcome.text;
  }

  static inline std::string root_, trained_;
};

TEST_F(Newcomer, TheExampleWorksFromAnyFolder) {
  // It was started in another folder than the recipe's and the configuration's: SetUpTestSuite has shown it.
  EXPECT_TRUE(real_io().stat(root_ + "/run/model/model.safetensors"));
  // Its record names everything whole, so that it too works from anywhere.
  EXPECT_EQ(tern("train run/recipe.toml --dry-run 2>/dev/null").code, 0);
  EXPECT_NE(real_io().read(root_ + "/run/recipe.toml").find("data = \"" + root_ + "/text.txt\""), std::string::npos);
}

TEST_F(Newcomer, TheWholeProgramStaysWithinThePrediction) {
  const Json train = parse_json(trained_, "train --json");
  EXPECT_EQ(train["counted_peak_bytes"], train["predicted_bytes"]["tensors"]);
  EXPECT_LE(train["peak_resident_bytes"], train["predicted_bytes"]["total"]);
  const Json written =
      parse_json(tern("generate run/model --prompt 'it was' --max-tokens 40 --json 2>/dev/null").text, "generate");
  EXPECT_LE(written["memory"]["peak_bytes"], written["memory"]["predicted_bytes"]);
  EXPECT_LE(written["memory"]["peak_resident_bytes"].get<int64_t>(),
            written["memory"]["predicted_bytes"].get<int64_t>() + written["memory"]["program_bytes"].get<int64_t>());
}

TEST_F(Newcomer, TheMemoryLimitCountsTheProgramItself) {
  const Json dry = parse_json(tern("train run/recipe.toml --output other --steps 6 --dry-run --json 2>/dev/null").text,
                              "train --dry-run");
  const int64_t tensors = dry["predicted_bytes"]["tensors"], total = dry["predicted_bytes"]["total"];
  ASSERT_GT(total - tensors, 4 << 20);
  expect_refusal(3, "train run/recipe.toml --output other --dry-run --memory " + std::to_string(tensors + (1 << 20)),
                 {"process", "allowed by --memory"});
  expect_refusal(3, "generate run/model --prompt it --memory 8MiB",
                 {"--memory 8.00 MiB less", "of the program itself"});
}

TEST_F(Newcomer, ASecondTokenizerDoesNotReplaceTheFirst) {
  const std::string command = "tokenize --train --input text.txt --output tokenizer --vocab-size ";
  EXPECT_EQ(tern(command + "300 2>/dev/null").code, 0) << "the same one again";
  const std::string before = real_io().read(root_ + "/tokenizer/tokenizer.json");
  expect_refusal(2, command + "270", {"tokenizer holds another tokenizer", "choose another --output"});
  EXPECT_EQ(real_io().read(root_ + "/tokenizer/tokenizer.json"), before);
}

TEST_F(Newcomer, PackingSaysWhatItReplacesAndOneDocumentIsOne) {
  const std::string command = "tokenize tokenizer --pack --input text.txt --output packed.tokens 2>&1";
  const Outcome first = tern(command), second = tern(command);
  EXPECT_EQ(first.text.find("in place of"), std::string::npos) << first.text;
  EXPECT_NE(first.text.find(" in 1 document,"), std::string::npos) << first.text;
  EXPECT_NE(second.text.find("(in place of the file that was there)"), std::string::npos) << second.text;
}

TEST_F(Newcomer, WhatWouldDoNothingWhenGeneratingIsRefused) {
  const std::string generate = "generate run/model --prompt it --max-tokens 4 ";
  expect_refusal(2, generate + "--samples 3", {"--samples 3", "all be the same text", "--temperature"});
  expect_refusal(2, generate + "--temperature 0 --top-k 5", {"--top-k: does nothing at temperature 0"});
  expect_refusal(2, generate + "--temperature 0 --min-p 0.1", {"--min-p"});
  EXPECT_EQ(tern(generate + "--temperature 0 --top-k 0 >/dev/null 2>&1").code, 0) << "the neutral value asks nothing";
  EXPECT_NE(tern(generate + "--seed 4 2>&1 >/dev/null").text.find("--seed changes nothing at temperature 0"),
            std::string::npos);
  const Json json = parse_json(tern(generate + "--samples 3 --temperature 0.9 --json 2>/dev/null").text, "generate");
  EXPECT_EQ(json["samples"].size(), 3u);
}

// transformers fills a missing top_k with 50; tern follows what the file says and shows it (infer/README.md).
TEST_F(Newcomer, NoTopKIsTakenThatNoFileNames) {
  const std::string path = root_ + "/run/model/generation_config.json";
  write_file_atomically(real_io(), path, std::string_view(R"({"do_sample": true, "temperature": 0.7})"));
  const Json json =
      parse_json(tern("generate run/model --prompt it --max-tokens 4 --json 2>/dev/null").text, "generate");
  EXPECT_EQ(json["settings"]["top_k"]["value"], 0);
  EXPECT_EQ(json["settings"]["top_k"]["origin"], "default");
  EXPECT_EQ(json["settings"]["temperature"]["value"], 0.7);
  real_io().remove(path);
}

TEST_F(Newcomer, CompareShowsTheSettingsThatDiffer) {
  ASSERT_EQ(tern("train run/recipe.toml --learning-rate 1e-3 --output again 2>/dev/null").code, 0);
  const Json json = parse_json(tern("compare run again --json").text, "compare");
  ASSERT_FALSE(json["settings"].empty());
  bool found = false;
  for (const Json& row : json["settings"])
    if (row["key"] == "learning-rate") found = row["a"] == "0.003" && row["b"] == "0.001";
  EXPECT_TRUE(found) << json["settings"].dump();
  const std::string text = tern("compare run again").text;
  EXPECT_NE(text.find("learning-rate"), std::string::npos) << text;
  EXPECT_NE(text.find(" @ 6"), std::string::npos) << "values with their steps\n" << text;
}

TEST_F(Newcomer, AnEmptyTextIsABadFileForEveryVerb) {
  write_file_atomically(real_io(), root_ + "/empty.txt", std::string_view());
  expect_refusal(4, "eval run/model --data empty.txt", {"empty.txt"});
  expect_refusal(4, "train run/recipe.toml --data empty.txt --output none", {"empty.txt"});
  expect_refusal(4, "tokenize tokenizer --pack --input empty.txt --output none.tokens", {"empty.txt"});
}

TEST_F(Newcomer, ADivergingRunHasItsOwnExitCode) {
  expect_refusal(7, "train run/recipe.toml --learning-rate 1e6 --clip 0 --steps 60 --warmup-steps 0 --output diverged",
                 {"not finite", "--learning-rate"});
}

TEST_F(Newcomer, OverlappingWindowsArePricedBeforeTheyAreMade) {
  expect_refusal(3, "eval run/model --data text.txt --window 256 --stride 1 --memory 20MiB",
                 {"windows of 256 tokens every 1", "--stride"});
}

TEST_F(Newcomer, ThePeakIsMeasuredOnceAndItsDateTold) {
  const Outcome again = tern("train run/recipe.toml --output cached --steps 3 2>&1 >/dev/null");
  EXPECT_EQ(again.code, 0) << again.text;
  EXPECT_EQ(again.text.find("measuring the machine's peak"), std::string::npos) << again.text;
  EXPECT_NE(again.text.find(" UTC)"), std::string::npos) << again.text;
  EXPECT_NE(again.text.find("try: " TERN_PROGRAM " generate"), std::string::npos) << "as it was typed\n" << again.text;
}

}  // namespace
}  // namespace tern
