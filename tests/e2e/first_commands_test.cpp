// What a newcomer types first: a model of sizes of their own, a text with broken bytes, a prompt from a pipe, a preset's name.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/source_dir_testing.h"
#include "tests/e2e/in_folder_testing.h"

namespace tern {
namespace {

class FirstCommands : public InFolder<FirstCommands> {
 protected:
  static void SetUpTestSuite() {
    make_root("first-commands");
    std::string text;
    for (int i = 0; i < 2000; ++i) text += i % 7 == 6 ? "the end.\n" : i % 3 == 0 ? "a small word " : "and another ";
    write("text.txt", text);
    const Outcome trained = tern("tokenize --train --vocab-size 300 --input text.txt --output tok --json 2>/dev/null");
    ASSERT_EQ(trained.code, 0);
    vocab_ = parse_json(trained.text, "tokenize")["vocab_size"];
  }
  static inline int64_t vocab_ = 0;

  static void expect_ok(const std::string& command) {
    const Outcome o = tern(command + " 2>&1 </dev/null");
    EXPECT_EQ(o.code, 0) << command << "\n" << o.text;
  }
};

TEST_F(FirstCommands, AModelOfTheSizesGivenIsWrittenTrainsAndWrites) {
  const Outcome made =
      tern("new --layers 2 --width 48 --heads 4 --kv-heads 2 --context 64 --tokenizer tok --output small --json");
  ASSERT_EQ(made.code, 0) << made.text;
  const Json json = parse_json(made.text, "new");
  EXPECT_EQ(json["vocab_size"], vocab_);
  EXPECT_EQ(json["intermediate_size"], 128);
  // Two layers of (2·48² + 2·24·48 + 3·48·128 + 2·48), the table, the last norm.
  EXPECT_EQ(json["parameters"], 2 * (2 * 48 * 48 + 2 * 24 * 48 + 3 * 48 * 128 + 2 * 48) + vocab_ * 48 + 48);
  expect_ok("train small --from-scratch --data text.txt --seq 16 --batch 2 --steps 2 --output run");
  write("prompt.txt", "a small\n");
  const Outcome piped = tern("generate run/model --max-tokens 3 --temperature 0 --json 2>/dev/null <prompt.txt");
  const Outcome given =
      tern("generate run/model --max-tokens 3 --temperature 0 --json --prompt-file prompt.txt 2>/dev/null");
  ASSERT_EQ(piped.code, 0);
  EXPECT_EQ(parse_json(piped.text, "piped")["choices"], parse_json(given.text, "given")["choices"]);
  const Outcome one =
      tern("generate run/model --prompt small --max-tokens 1 --temperature 0 --ignore-eos 2>&1 </dev/null");
  EXPECT_NE(one.text.find("1 token, "), std::string::npos) << one.text;
  EXPECT_EQ(one.text.find("tok/s"), std::string::npos) << "one token has no rate: " << one.text;
  expect_refusal(2, "generate run/model", {"there is no prompt", "--prompt-file"});
}

TEST_F(FirstCommands, ARunsDirectoryAndATokenFileAreKnownForWhatTheyAre) {
  expect_ok("new --layers 1 --width 16 --heads 2 --context 32 --tokenizer tok --output tiny");
  expect_ok("train tiny --from-scratch --data text.txt --seq 16 --batch 2 --steps 1 --output known");
  expect_refusal(2, "train known", {"is the directory of a run", "tern train known/recipe.toml", "known/model"});
  expect_ok("tokenize tok --pack --input text.txt --output text.tokens");
  const Outcome o = tern("inspect text.tokens --json");
  ASSERT_EQ(o.code, 0) << o.text;
  const Json json = parse_json(o.text, "inspect");
  EXPECT_GT(json["tokens"], 1000);
  EXPECT_EQ(json["documents"], 1);
  EXPECT_EQ(json["vocab_size"], vocab_);
  EXPECT_NE(tern("inspect text.tokens").text.find("in 1 document"), std::string::npos);
  // Layouts are a model's, by its files or by a preset's name; their options belong to them.
  EXPECT_EQ(tern("inspect text.tokens --layouts 2 2>&1").code, 2);
  EXPECT_EQ(tern("inspect gpt2-xl --batch 4 2>&1").code, 2);
  EXPECT_EQ(tern("inspect gpt2-xl --layouts 3 --batch 4 2>&1").code, 2);
  const Json layouts = parse_json(tern("inspect gpt2-xl --layouts 5 --batch 2 --seq 512 --json").text, "layouts");
  EXPECT_EQ(layouts["rows"], 1024);
  EXPECT_EQ(layouts["parameters"][0]["kept"], "S(0)");
}

TEST_F(FirstCommands, SizesThatMakeNoModelAreNamed) {
  expect_refusal(2, "new --output none", {"--tokenizer", "--vocab-size"});
  expect_refusal(2, "new --vocab-size 9 --tokenizer tok --output none", {"both given"});
  expect_refusal(2, "new --vocab-size 300 --width 50 --heads 4 --output none", {"--heads 4", "divide", "50"});
  expect_refusal(2, "new --vocab-size 300 --width 60 --heads 4 --output none", {"15 elements", "odd"});
  expect_refusal(2, "new --vocab-size 300 --heads 4 --kv-heads 3 --output none", {"--kv-heads 3"});
  expect_refusal(2, "new --vocab-size 300", {"--output"});
  expect_refusal(2, "new --vocab-size 300 --output tok", {"not empty"});
}

TEST_F(FirstCommands, BytesThatAreNoUtf8AreRefusedReplacedOrLeftOut) {
  write("broken.txt", "one\xff two\n<|endoftext|>\nthree\n");
  expect_refusal(4, "tokenize tok --pack --input broken.txt --output none", {"byte 3", "--invalid-utf8"});
  const Outcome replaced = tern("tokenize tok --pack --input broken.txt --invalid-utf8 replace --output r 2>&1");
  EXPECT_NE(replaced.text.find("1 document had bytes that are no UTF-8, which were replaced by U+FFFD"),
            std::string::npos)
      << replaced.text;
  const Outcome skipped =
      tern("tokenize tok --pack --input broken.txt --invalid-utf8 skip --output s --json 2>/dev/null");
  ASSERT_EQ(skipped.code, 0);
  write("whole.txt", "one two\n<|endoftext|>\nthree\n");
  const Outcome whole = tern("tokenize tok --pack --input whole.txt --output w --json 2>/dev/null");
  EXPECT_EQ(parse_json(skipped.text, "s")["tokens"], parse_json(whole.text, "w")["tokens"]);
  EXPECT_EQ(parse_json(skipped.text, "s")["text_bytes"], parse_json(whole.text, "w")["text_bytes"]);
  const std::string train =
      "train " + source_dir() +
      "/examples/tiny/config.json --from-scratch --tokenizer tok --data broken.txt --seq 4 --batch 1 "
      "--steps 1 --output ";
  expect_refusal(4, train + "run-error", {"--invalid-utf8"});
  const Outcome trained = tern(train + "run-replace --invalid-utf8 replace 2>&1");
  EXPECT_EQ(trained.code, 0) << trained.text;
  EXPECT_NE(trained.text.find("1 document had bytes"), std::string::npos) << trained.text;
}

TEST_F(FirstCommands, APresetHasNoFiles) {
  for (const char* verb :
       {"train llama-3-8b --data text.txt --output none", "generate llama-3-8b --prompt a", "inspect gpt2-xl"})
    expect_refusal(2, verb, {"a preset", "tern plan", "tern new"});
  expect_refusal(4, "train llama-3-8c --data text.txt --output none", {"no such directory"});
}

TEST_F(FirstCommands, TheVersionForScripts) {
  EXPECT_EQ(parse_json(tern("version --json").text, "version").size(), 1);
  EXPECT_EQ("tern " + parse_json(tern("version --json").text, "version")["version"].get<std::string>() + "\n",
            tern("version").text);
}

}  // namespace
}  // namespace tern
