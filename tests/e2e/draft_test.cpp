// --draft MODEL as a person gives it: another model guesses, and nothing that is written changes.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/source_dir_testing.h"
#include "tests/e2e/in_folder_testing.h"
#include "tests/e2e/novels_testing.h"

namespace tern {
namespace {

const std::string kCoded = source_dir() + "/examples/novels-6m-lc4";

class Draft : public InFolder<Draft> {
 protected:
  static void SetUpTestSuite() { make_root("draft"); }
};

TEST_F(Draft, ChangesNoAnswerAndIsInTheForecast) {
  const std::string generate = "generate " + kNovels + " --prompt 'It was a dark' --max-tokens 80 ";
  for (const std::string draw : {"", "--temperature 0.8 --seed 3 --samples 3 "}) {
    const Json plain = parse_json(tern(generate + draw + "--json").text, "plain");
    for (const std::string& draft : {kNovels, kCoded}) {
      const Outcome o = tern(generate + draw + "--draft-tokens 5 --json --draft " + draft);
      ASSERT_EQ(o.code, 0);
      const Json guessed = parse_json(o.text, "guessed");
      EXPECT_EQ(guessed["samples"], plain["samples"]) << draft;
      EXPECT_LE(guessed["memory"]["peak_bytes"], guessed["memory"]["predicted_bytes"]);
      EXPECT_GT(guessed["memory"]["predicted_bytes"].get<int64_t>(),
                plain["memory"]["predicted_bytes"].get<int64_t>() + (draft == kNovels ? 8'000'000 : 0));
      EXPECT_GT(guessed["speculation"]["decoded_tokens"], 20);
    }
  }
  write("prompts", "\"It was\"\n\"The old man\"\n");
  const std::string prompts = "generate " + kNovels + " --prompts prompts --max-tokens 20 2>/dev/null";
  EXPECT_EQ(tern(prompts + " --draft " + kCoded).text, tern(prompts).text);
}

// Greedy tokens are the same also with --fast; sampled ones are others, and as many.
TEST_F(Draft, FastDrawsOtherTokensOfTheSameKind) {
  const std::string generate = "generate " + kNovels + " --prompt 'It was a dark' --max-tokens 60 --ignore-eos --json ";
  const std::string fast = "--draft-tokens 5 --fast --draft " + kCoded;
  EXPECT_EQ(parse_json(tern(generate + fast).text, "fast")["samples"],
            parse_json(tern(generate).text, "plain")["samples"]);
  const Json sampled = parse_json(tern(generate + "--temperature 1 --seed 3 --samples 2 " + fast).text, "sampled");
  for (const Json& sample : sampled["samples"]) EXPECT_EQ(sample["token_ids"].size(), 60u);
  expect_refusal(2, generate + "--fast", {"--draft MODEL"});
  expect_refusal(2, generate + "--fast --speculate ngram", {"--draft MODEL", "as often without it"});
  write("fast-prompts", "\"It was\"\n");
  expect_refusal(2, "generate " + kNovels + " --prompts fast-prompts --fast --draft " + kCoded,
                 {"--fast", "--prompts"});
}

TEST_F(Draft, IsRefusedWhereItCannotGuess) {
  const std::string generate = "generate " + kNovels + " --prompt a ";
  expect_refusal(2, generate + "--speculate draft", {"--draft MODEL"});
  expect_refusal(2, generate + "--speculate ngram --draft " + kCoded, {"which is ngram here"});
  expect_refusal(2, generate + "--draft-tokens 4", {"--draft-tokens", "--draft MODEL"});
  expect_refusal(3, generate + "--memory 40MiB --draft " + kNovels, {"draft"});
  expect_refusal(4, generate + "--draft nowhere", {"nowhere"});
  const std::string other = root_ + "/other";
  std::filesystem::copy(kNovels, other);
  std::filesystem::copy_file(source_dir() + "/tests/golden/tokenizers/families/smollm_like.json",
                             other + "/tokenizer.json", std::filesystem::copy_options::overwrite_existing);
  expect_refusal(2, generate + "--draft " + other, {"same tokenizer", "its token"});
}

}  // namespace
}  // namespace tern
